"""The tools that work: validate, plan, run what was planned, wait in slices, cancel, edit a stored workflow.

Whatever spends is refused until its plan was read: the plan's fingerprint is the acknowledgement.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context
from pydantic import Field

from restrike.errors import Conflict
from restrike.server.api.asking import HERE, check_trust, heavy
from restrike.server.api.bodies import WorkForm
from restrike.server.jobs.model import Job, JobEvent
from restrike.server.library import Library, Stored
from restrike.server.mcp.answers import SHOWN, PlanUnread, plan_answer, request_of
from restrike.server.mcp.looking import Job_, Workspace
from restrike.server.service import Service
from restrike.server.streaming import Follow
from restrike.server.submitting import Terms, graph_of, plan_of, submit
from restrike.server.views import failure_view
from restrike.workflow.findings import InvalidWorkflow

SLICE_S = 50.0
_EVENTS = 10
_NEWS = {"state": ("state", "reason"), "step": ("step", "status", "seconds", "reason")}
_NEWS |= {"artifact": ("step", "file"), "notice": ("message",), "cancelling": ()}
"""What is told of events while waiting, by kind: enough to follow, no more."""


@dataclass(frozen=True, kw_only=True)
class Working:
    """Works on one server, within what the token of a call allows."""

    service: Service

    async def validate(self, work: WorkForm, context: Context) -> dict[str, Any]:
        """Tell all that is wrong with a workflow or a generation, each fault at its place. Runs nothing."""
        _check(work, context)
        return self.service.shown(await heavy(self.service, lambda: self._validated(work)))

    async def plan(self, work: WorkForm, context: Context) -> dict[str, Any]:
        """Tell what would run and be reused, and the cost. `run` needs the fingerprint. Runs nothing."""
        _check(work, context)
        found = await heavy(self.service, lambda: plan_of(self.service, work.work(self.service)))
        return self.service.shown(plan_answer(found))

    async def run(
        self,
        work: WorkForm,
        context: Context,
        acknowledge: Annotated[
            str, Field(description="The fingerprint of the plan, which says that you read what it costs.")
        ] = "",
        client_id: Annotated[
            str | None,
            Field(pattern=r"^[!-~]{1,200}$", description="Makes a retry safe: same id, same work, same job."),
        ] = None,
        priority: Annotated[int, Field(ge=-1000, le=1000)] = 0,
    ) -> dict[str, Any]:
        """Submit work. Answers at once with the id of a durable job; then `wait` for it."""
        _check(work, context)
        terms = Terms(client_id=client_id, priority=priority, accept_plan=acknowledge or None)
        return self.service.shown(await heavy(self.service, lambda: self._submitted(work, terms)))

    async def wait(
        self,
        job: Job_,
        seconds: Annotated[float, Field(ge=0, le=SLICE_S, description="At most so long; call again.")] = 20,
        after: Annotated[int, Field(ge=0, description="`after` of the last answer: tell only news.")] = 0,
    ) -> dict[str, Any]:
        """Wait until a job has ended, or for a slice of time. Waiting changes nothing."""
        await anyio.to_thread.run_sync(self.service.queue.job, job)
        news: deque[JobEvent] = deque(maxlen=_EVENTS)
        progress: Mapping[str, Any] | None = None
        follow = Follow(
            news=self.service.news,
            history=self.service.history,
            after=after,
            job=job,
            shown=self.service.shown,
        )
        with anyio.move_on_after(seconds):
            async with aclosing(follow.events()) as events:
                async for event in events:
                    if event is not None and event.kind == "progress":
                        progress, after = event.data, event.sequence
                    elif event is not None:
                        after = event.sequence
                        if event.kind in _NEWS:
                            news.append(event)
        found = await anyio.to_thread.run_sync(self.service.queue.job, job)
        return self.service.shown(_state(found) | _news(news, progress, after))

    async def cancel(self, job: Job_) -> dict[str, Any]:
        """Stop a job: now when it waits, at its next step when it runs. Finished steps are kept."""

        def stop() -> Job:
            found = self.service.queue.cancel(job)
            self.service.waking()
            return found

        return self.service.shown(_state(await anyio.to_thread.run_sync(stop)))

    async def edit(
        self,
        workflow: Annotated[str, Field(description="Its name.")],
        patch: Annotated[
            dict[str, Any],
            Field(description="A JSON merge patch: objects merge, null removes, all else replaces."),
        ],
        on: Annotated[
            int | None, Field(ge=0, description="The revision that you read; 0 makes a new workflow.")
        ] = None,
        workspace: Workspace = HERE,
    ) -> dict[str, Any]:
        """Change a stored workflow, or make one. Earlier revisions stay; jobs under way do not change."""
        stored = await heavy(self.service, partial(self._edited, workspace, workflow, patch, on))
        return {"workflow": stored.name, "revision": stored.revision}

    def _validated(self, work: WorkForm) -> dict[str, Any]:
        try:
            graph = graph_of(self.service, work.work(self.service))
        except InvalidWorkflow as error:
            faults = [asdict(finding) for finding in error.findings[:SHOWN]]
            more = len(error.findings) - SHOWN
            return {"valid": False, "findings": faults, **({"more_findings": more} if more > 0 else {})}
        return {"valid": True, "workflow": graph.name, "steps": len(graph.actions)}

    def _submitted(self, work: WorkForm, terms: Terms) -> dict[str, Any]:
        asked = work.work(self.service)
        if terms.accept_plan is None:
            raise PlanUnread(plan_of(self.service, asked))
        return _state(submit(self.service, asked, terms))

    def _edited(self, workspace: str, name: str, patch: Mapping[str, Any], on: int | None) -> Stored:
        library = Library(self.service.workspace(workspace))
        if on == 0 and name not in library.names():
            return library.save(name, patch, on=0)
        if on == 0:
            raise Conflict(f"there is a workflow '{name}' already; read it, and give its revision")
        return library.patch(name, patch, on=on)


def _check(work: WorkForm, context: Context) -> None:
    """Hold the request against what its token allows."""
    check_trust(work.trusted, request_of(context).state.grant)


def _state(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = {"job": job.id, "state": str(job.state)}
    if job.cancel_requested and not job.state.is_final:
        found["stopping"] = True
    return found | ({"failure": failure_view(job.failure)} if job.failure else {})


def _news(news: deque[JobEvent], progress: Mapping[str, Any] | None, after: int) -> dict[str, Any]:
    told = {"progress": {name: progress.get(name) for name in ("step", "done", "total")}} if progress else {}
    return {**told, "news": [_line(event) for event in news], "after": after}


def _line(event: JobEvent) -> dict[str, Any]:
    shown = {name: event.data[name] for name in _NEWS[event.kind] if event.data.get(name) not in (None, "")}
    return {"kind": event.kind, **shown}

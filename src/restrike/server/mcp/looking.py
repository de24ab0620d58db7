"""The tools that look: find cards, workflows, runs and jobs, read one, and say why a job did what it did."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from restrike.cards import registry
from restrike.errors import NotFound, RestrikeError
from restrike.server.api.asking import HERE, heavy
from restrike.server.jobs.model import Job
from restrike.server.library import Library
from restrike.server.mcp.answers import SHOWN, page
from restrike.server.naming import card_named
from restrike.server.service import Service
from restrike.server.views import failure_view
from restrike.workflow.runs import RunFolder, list_runs

Kind = Literal["cards", "workflows", "tasks", "runs", "jobs"]
One = Literal["card", "workflow", "task", "run", "job"]
Workspace = Annotated[str, Field(description="Each workspace has its own workflows, assets and runs.")]
Job_ = Annotated[str, Field(description="The id of a job.")]
_MOST = 50


@dataclass(frozen=True, kw_only=True)
class Looking:
    """Looks at one server; changes nothing."""

    service: Service

    async def find(
        self,
        kind: Kind,
        text: Annotated[str, Field(description="Words that must all occur; empty for everything.")] = "",
        after: Annotated[str | None, Field(description="`next` of the last answer.")] = None,
        limit: Annotated[int, Field(ge=1, le=_MOST)] = 10,
        workspace: Workspace = HERE,
    ) -> dict[str, Any]:
        """List cards (models), stored workflows, tasks (functions a workflow step can call), runs or jobs."""
        return await heavy(self.service, lambda: self._find(kind, text, after, limit, workspace))

    async def read(
        self,
        kind: One,
        name: Annotated[str, Field(description="A name or id that `find` gave.")],
        offset: Annotated[int, Field(ge=0, description="`next` of the last answer.")] = 0,
        workspace: Workspace = HERE,
    ) -> dict[str, Any]:
        """Read one card, workflow, task, run or job. A long text comes in pages."""
        reading: dict[One, Callable[[], dict[str, Any]]] = {
            "card": lambda: _card(name),
            "workflow": lambda: self._workflow(workspace, name, offset),
            "task": lambda: self._task(workspace, name),
            "run": lambda: self._run(workspace, name, offset),
            "job": lambda: self._job(name),
        }
        return self.service.shown(await heavy(self.service, reading[kind]))

    async def explain(self, job: Job_) -> dict[str, Any]:
        """Say why each step of a job was reused or computed, by what, and why the job went to its device."""
        return self.service.shown(await heavy(self.service, lambda: self._explain(job)))

    def _find(self, kind: Kind, text: str, after: str | None, limit: int, workspace: str) -> dict[str, Any]:
        if kind == "jobs":
            return self._jobs(text, after, limit, workspace)
        entries: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
            "cards": _cards,
            "workflows": lambda: self._workflows(workspace),
            "tasks": lambda: self._tasks(workspace),
            "runs": lambda: self._runs(workspace),
        }
        words = text.lower().split()
        found = (entry for entry in entries[kind]() if all(word in str(entry).lower() for word in words))
        return _paged(kind, found, after, limit)

    def _jobs(self, text: str, after: str | None, limit: int, workspace: str) -> dict[str, Any]:
        seen = None if after is None else self.service.queue.job(after)
        before = None if seen is None else (seen.created, seen.id)
        found = self.service.history.jobs(workspace=workspace, before=before, limit=limit)
        words = text.lower().split()
        listed = [_job_line(job) for job in found]
        listed = [line for line in listed if all(word in str(line).lower() for word in words)]
        return {"jobs": listed, **({"next": found[-1].id} if len(found) == limit else {})}

    def _workflows(self, workspace: str) -> Iterator[dict[str, Any]]:
        library = Library(self.service.workspace(workspace))
        yield from ({"name": name, "revisions": len(library.revisions(name))} for name in library.names())

    def _tasks(self, workspace: str) -> Iterator[dict[str, Any]]:
        tasks = self.service.session(workspace, trusted=False).machine.tasks
        yield from ({"name": name, "does": tasks.get(name).summary} for name in tasks.names())

    def _runs(self, workspace: str) -> Iterator[dict[str, Any]]:
        for folder in reversed(list(list_runs(self.service.workspace(workspace)))):
            try:
                manifest = folder.manifest()
            except RestrikeError:  # deleted while it was listed
                continue
            yield {"name": folder.name, "status": manifest.status, "started": manifest.started}

    def _workflow(self, workspace: str, name: str, offset: int) -> dict[str, Any]:
        stored = Library(self.service.workspace(workspace)).read(name)
        text = json.dumps(stored.definition, ensure_ascii=False, indent=1)
        return {"name": name, "revision": stored.revision, **page(text, offset)}

    def _task(self, workspace: str, name: str) -> dict[str, Any]:
        task = self.service.session(workspace, trusted=False).machine.tasks.get(name)
        defaults = task.defaults()
        takes = {
            part: {
                "type": _hint(task.hint(part)),
                **({"default": defaults[part]} if part in defaults else {}),
            }
            for part in task.parameters()
        }
        return {"name": name, "does": task.summary, "arguments": takes, "gives": _hint(task.returns)}

    def _run(self, workspace: str, name: str, offset: int) -> dict[str, Any]:
        folder = RunFolder.open(self.service.workspace(workspace), name)
        manifest = folder.manifest()
        about = {"name": folder.name, "status": manifest.status, "seed": manifest.seed}
        return {**about, **page(folder.definition().read_text(encoding="utf-8"), offset)}

    def _job(self, name: str) -> dict[str, Any]:
        job = self.service.queue.job(name)
        shown: dict[str, Any] = {
            **_job_line(job),
            "device": job.device,
            "why": job.why,
            "run": job.run,
            "attempt": job.attempt,
            "seconds": None
            if job.ended is None or job.started is None
            else round(job.ended - job.started, 3),
            "seed": job.body.get("seed", job.record.get("seed")),
            "reused": len(job.record.get("reused", ())),
            "computed": len(job.record.get("computed", ())),
        }
        return shown | ({"failure": failure_view(job.failure)} if job.failure else {})

    def _explain(self, name: str) -> dict[str, Any]:
        job = self.service.queue.job(name)
        if job.run is None:
            raise NotFound(f"job '{name}' has no run yet, it is {job.state}; wait for it first")
        steps = self.service.session(job.workspace, trusted=False).explain(job.run)
        return {
            "job": job.id,
            "state": str(job.state),
            "went": job.why,
            "steps": [
                {
                    "step": step.record.action,
                    "status": step.record.status,
                    "why": step.why,
                    **({"how": list(step.how)} if step.how else {}),
                    "seconds": round(step.record.seconds, 3),
                }
                for step in steps[:SHOWN]
            ],
            **({"more_steps": len(steps) - SHOWN} if len(steps) > SHOWN else {}),
        }


def _paged(kind: str, found: Iterator[dict[str, Any]], after: str | None, limit: int) -> dict[str, Any]:
    """A page of entries, after the one that was named last."""
    if after is not None and not any(entry["name"] == after for entry in found):
        raise NotFound(f"after: nothing is listed under '{after[:80]}' any more; begin anew without it")
    shown = [entry for entry, _ in zip(found, range(limit), strict=False)]
    more = next(found, None) is not None
    return {kind: shown, **({"next": shown[-1]["name"]} if more else {})}


def _cards() -> Iterator[dict[str, Any]]:
    for name in registry.names():
        try:
            card = registry.card(name)
        except RestrikeError as error:
            yield {"name": name, "fault": error.message}
            continue
        yield {"name": name, "makes": [str(task) for task in card.tasks()], "about": card.description}


def _card(name: str) -> dict[str, Any]:
    card = card_named(name)
    geometry = card.geometry
    return {
        "name": card.name,
        "about": card.description,
        "makes": [str(task) for task in card.tasks()],
        "license": card.license,
        "sizes": {
            "width": str(geometry.width),
            "height": str(geometry.height),
            "frames": str(geometry.frames),
        },
        "defaults": asdict(card.defaults),
        "solvers": sorted({solver for loop in card.loops for solver in loop.solvers}),
        "guidance": sorted({mode for loop in card.loops for mode in loop.guidance}),
        "example": card.example,
        "here": card.location is not None,
    }


def _job_line(job: Job) -> dict[str, Any]:
    return {"job": job.id, "state": str(job.state), "workflow": job.label, "created": job.created}


def _hint(hint: Any) -> str:
    return getattr(hint, "__name__", None) or str(hint).replace("typing.", "")

"""`Client`: a server's jobs from a program, by calls that return when they are answered."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from restrike.client.asked import Call, Generation, Terms, Work
from restrike.client.failures import plan_of
from restrike.client.following import Following
from restrike.client.results import Cleared, Job, JobFile, cleared_of, event_of, job_of
from restrike.client.transfers import download, upload
from restrike.client.wire import Broken, Wire, job_path
from restrike.errors import NotFound
from restrike.server.jobs.model import JobEvent, JobState

if TYPE_CHECKING:
    from restrike.workflow.plan import Plan

URL = "http://127.0.0.1:8420"
"""Where `restrike serve` listens when it is told nothing."""


_AT_ONCE = 500


class Client:
    """A client of one server; it holds no connection, and any thread may use it.

    Every call raises what the server raised, as the same types as in process; `NotFound` when no server is
    there, and `Crashed` when the connection broke.
    """

    def __init__(
        self, url: str = URL, *, token: str | None = None, workspace: str = "default", timeout_s: float = 60.0
    ) -> None:
        """Asks nothing yet; raises Refused for an address that is none."""
        self.url = url
        self.workspace = workspace
        self._wire = Wire(url, token=token, timeout_s=timeout_s)

    def submit(self, work: Work | Call, terms: Terms | None = None) -> Job:
        """Submit a workflow, a generation or a call of an endpoint; the job is durable when this returns.

        An answer that is lost on its way is asked for again, under the same client id.

        Raises:
            PlanChanged: what would run now is not the plan that the terms accept.
            Conflict: the client id was used for another job.
            Refused: the work is at fault, as `InvalidWorkflow` with all findings, or would cost too much.
        """
        asked = terms or Terms()
        asked = replace(asked, client_id=asked.client_id or secrets.token_hex(8))
        tree = {**work.tree(), **asked.tree(), "workspace": self.workspace}
        try:
            return job_of(self._wire.ask("POST", work.path, tree=tree))
        except Broken:
            return job_of(self._wire.ask("POST", work.path, tree=tree))

    def generate(
        self, prompt: str, *, card: str, count: int = 1, output: str | None = None, **options: Any
    ) -> Job:
        """Submit a generation; `options` are fields of `restrike.Request`. Raises as `submit`."""
        return self.submit(Generation(prompt=prompt, card=card, count=count, output=output, options=options))

    def endpoint(
        self, name: str, payload: Mapping[str, Any], *, handler: str | None = None, seed: int | None = None
    ) -> Job:
        """Call an endpoint of the server; what it returns is `record["answer"]` of the job that succeeded.

        Raises:
            NotFound: the server serves no such endpoint, or it has no such handler.
            Refused: the payload does not fit, with all findings, or a slot has no model.
        """
        return self.submit(Call(endpoint=name, payload=payload, handler=handler, seed=seed))

    def plan(self, work: Work) -> Plan:
        """What a job would reuse and what it would compute now; it submits nothing. Raises as `submit`."""
        tree = {**work.tree(), "workspace": self.workspace}
        return plan_of(self._wire.ask("POST", "/api/plan", tree=tree))

    def job(self, name: str) -> Job:
        """A job as it stands; raises NotFound."""
        return job_of(self._wire.ask("GET", job_path(name)))

    def jobs(self, *, state: JobState | None = None, limit: int = 50) -> tuple[Job, ...]:
        """The newest jobs, newest first."""
        found = self._wire.ask(
            "GET", "/api/jobs", query={"state": state, "limit": limit, "workspace": self.workspace}
        )
        return tuple(map(job_of, found["jobs"]))

    def explain(self, name: str) -> tuple[dict[str, Any], ...]:
        """Of each step of a job why it was reused or computed, and what cells and captures did in it.

        They are what `restrike explain --json` prints. Raises NotFound for a job without a run.
        """
        job = self.job(name)
        if job.run is None:
            raise NotFound(f"job '{name}' has no run yet, it is {job.state}; wait for it first")
        found = self._wire.ask("GET", f"/api/runs/{job.run}/explain", query={"workspace": job.workspace})
        return tuple(found["steps"])

    def cancel(self, name: str) -> Job:
        """Ask a job to stop: at once when it waits, at its next step when it runs. Raises NotFound."""
        return job_of(self._wire.ask("POST", f"{job_path(name)}/cancel"))

    def rerun(
        self, name: str, *, seed: int | None = None, new_seed: bool = False, client_id: str | None = None
    ) -> Job:
        """Submit the work of a job once more: with its seed, with another, or with one that is drawn.

        An answer that is lost on its way is asked for again, under the same client id.

        Raises:
            NotFound: there is no such job.
            Conflict: the client id was used for another job.
        """
        tree = {"seed": seed, "new_seed": new_seed, "client_id": client_id or secrets.token_hex(8)}
        try:
            return job_of(self._wire.ask("POST", f"{job_path(name)}/rerun", tree=tree))
        except Broken:
            return job_of(self._wire.ask("POST", f"{job_path(name)}/rerun", tree=tree))

    def move(self, name: str, *, priority: int | None = None, before: str | None = None) -> Job:
        """Change where a waiting job stands: its priority, or right before another waiting job.

        Raises:
            NotFound: one of them does not exist.
            Conflict: one of them does not wait any more.
        """
        tree = {"priority": priority, "before": before}
        return job_of(self._wire.ask("POST", f"{job_path(name)}/move", tree=tree))

    def switches(self) -> dict[str, bool]:
        """Whether the queue is `paused`, so that nothing new starts, or `draining`: nothing is accepted."""
        return self._wire.ask("GET", "/api/switches")

    def switch(self, *, paused: bool | None = None, draining: bool | None = None) -> dict[str, bool]:
        """Turn them on or off, with the scope admin; what is left out stays. Returns how they stand."""
        return self._wire.ask("PUT", "/api/switches", tree={"paused": paused, "draining": draining})

    def clear_memory(self, device: str | None = None) -> tuple[Cleared, ...]:
        """Let one device, or all that are idle, go of what is loaded, with the scope admin.

        Returns what became of each device; without a name, one that runs a job is left as it is.

        Raises:
            Unknown: there is no such device.
            Conflict: that device runs a job.
        """
        found = self._wire.ask("POST", "/api/memory/clear", tree={"device": device})
        return tuple(map(cleared_of, found["devices"]))

    def events(self, job: str | None = None, *, after: int | None = None) -> Iterator[JobEvent]:
        """What happens to a job until it has ended, or to all jobs; after an event's number.

        It goes on over broken connections and a server that restarts: no event is lost, none comes twice.
        """
        return iter(self.following(job, after=after))

    def happened(self, job: str) -> tuple[JobEvent, ...]:
        """What has happened to a job so far; raises NotFound."""
        found = list[JobEvent]()
        while True:
            query = {"after": found[-1].sequence if found else 0, "limit": _AT_ONCE}
            answer = self._wire.ask("GET", f"{job_path(job)}/log", query=query)
            found += map(event_of, answer["events"])
            if len(answer["events"]) < _AT_ONCE:
                return tuple(found)

    def following(self, job: str | None = None, *, after: int | None = None) -> Following:
        """The same as something that can be closed by another thread."""
        return Following(self._wire, job, after)

    def wait(self, name: str) -> Job:
        """The job when it has ended, however that was. Waiting changes nothing; raises NotFound."""
        for _ in self.events(name):
            pass
        return self.job(name)

    def download(self, file: JobFile, folder: Path) -> Path:
        """Download a file of a job into a folder, whole or not at all; returns where it is.

        Raises:
            NotFound: it is not there any more.
            Crashed: what came is not what the server told of.
            Shortfall, Refused: the folder has no space, or cannot be written.
        """
        return download(self._wire, file, folder)

    def save(self, name: str, folder: Path) -> tuple[Path, ...]:
        """Download all files of a job into a folder; returns where they are. Raises as `download`."""
        return tuple(self.download(file, folder) for file in self.job(name).files)

    def upload(self, file: Path) -> str:
        """Keep a file among the workspace's assets; returns how a workflow names it, `$asset.NAME`.

        The name is made of the digest of its bytes, so the same file is kept once.

        Raises:
            NotFound, Refused: there is no such file, or it cannot be read or is not taken.
        """
        return upload(self._wire, file, self.workspace)

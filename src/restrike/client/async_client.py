"""`AsyncClient`: the same as `Client` for programs on an event loop, each call on a thread of its own.

A server's calls are few and mostly wait, so that threads cost nothing here, and the protocol is written once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from restrike.client.asked import Call, Generation, Terms, Work
from restrike.client.client import URL, Client
from restrike.client.results import Cleared, Job, JobFile
from restrike.server.jobs.model import JobEvent, JobState

if TYPE_CHECKING:
    from restrike.workflow.plan import Plan

Value = TypeVar("Value")


class AsyncClient:
    """A client of one server; every method does, returns and raises what `Client`'s of the same name does."""

    def __init__(
        self, url: str = URL, *, token: str | None = None, workspace: str = "default", timeout_s: float = 60.0
    ) -> None:
        """Asks nothing yet; raises Refused for an address that is none."""
        self._client = Client(url, token=token, workspace=workspace, timeout_s=timeout_s)

    async def submit(self, work: Work | Call, terms: Terms | None = None) -> Job:
        """Submit a workflow, a generation or a call of an endpoint."""
        return await _on_thread(lambda: self._client.submit(work, terms))

    async def generate(
        self, prompt: str, *, card: str, count: int = 1, output: str | None = None, **options: Any
    ) -> Job:
        """Submit a generation."""
        asked = Generation(prompt=prompt, card=card, count=count, output=output, options=options)
        return await self.submit(asked)

    async def endpoint(
        self, name: str, payload: Mapping[str, Any], *, handler: str | None = None, seed: int | None = None
    ) -> Job:
        """Call an endpoint of the server."""
        return await self.submit(Call(endpoint=name, payload=payload, handler=handler, seed=seed))

    async def plan(self, work: Work) -> Plan:
        """What a job would reuse and compute now."""
        return await _on_thread(lambda: self._client.plan(work))

    async def job(self, name: str) -> Job:
        """A job as it stands."""
        return await _on_thread(lambda: self._client.job(name))

    async def jobs(self, *, state: JobState | None = None, limit: int = 50) -> tuple[Job, ...]:
        """The newest jobs, newest first."""
        return await _on_thread(lambda: self._client.jobs(state=state, limit=limit))

    async def explain(self, name: str) -> tuple[dict[str, Any], ...]:
        """Of each step of a job why it was reused or computed."""
        return await _on_thread(lambda: self._client.explain(name))

    async def cancel(self, name: str) -> Job:
        """Ask a job to stop."""
        return await _on_thread(lambda: self._client.cancel(name))

    async def rerun(
        self, name: str, *, seed: int | None = None, new_seed: bool = False, client_id: str | None = None
    ) -> Job:
        """Submit the work of a job once more."""
        return await _on_thread(
            lambda: self._client.rerun(name, seed=seed, new_seed=new_seed, client_id=client_id)
        )

    async def move(self, name: str, *, priority: int | None = None, before: str | None = None) -> Job:
        """Change where a waiting job stands."""
        return await _on_thread(lambda: self._client.move(name, priority=priority, before=before))

    async def switches(self) -> dict[str, bool]:
        """Whether the queue is paused or draining."""
        return await _on_thread(self._client.switches)

    async def switch(self, *, paused: bool | None = None, draining: bool | None = None) -> dict[str, bool]:
        """Turn them on or off."""
        return await _on_thread(lambda: self._client.switch(paused=paused, draining=draining))

    async def clear_memory(self, device: str | None = None) -> tuple[Cleared, ...]:
        """Let one device, or all that are idle, go of what is loaded."""
        return await _on_thread(lambda: self._client.clear_memory(device))

    async def events(self, job: str | None = None, *, after: int | None = None) -> AsyncIterator[JobEvent]:
        """What happens to a job until it has ended, or to all jobs; leaving the loop ends the connection."""
        following = self._client.following(job, after=after)
        events = iter(following)
        try:
            while (event := await _on_thread(lambda: next(events, None))) is not None:
                yield event
        finally:
            following.close()

    async def wait(self, name: str) -> Job:
        """The job when it has ended; a wait that is cancelled stops waiting, and nothing else."""
        async for _ in self.events(name):
            pass
        return await self.job(name)

    async def download(self, file: JobFile, folder: Path) -> Path:
        """Download a file of a job into a folder."""
        return await _on_thread(lambda: self._client.download(file, folder))

    async def save(self, name: str, folder: Path) -> tuple[Path, ...]:
        """Download the files of a job into a folder."""
        return await _on_thread(lambda: self._client.save(name, folder))

    async def upload(self, file: Path) -> str:
        """Keep a file among the workspace's assets."""
        return await _on_thread(lambda: self._client.upload(file))


async def _on_thread(call: Callable[[], Value]) -> Value:
    """What a call gives. Not asyncio's own threads: those are few, and a wait would hold one for hours."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Value] = loop.create_future()

    def settle(value: Value | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(value)  # pyright: ignore[reportArgumentType]  (one of the two is given)
        else:
            future.set_exception(error)

    def run() -> None:
        try:
            found, failed = call(), None
        except Exception as error:
            found, failed = None, error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, found, failed)

    threading.Thread(target=run, name="restrike-client", daemon=True).start()
    return await future

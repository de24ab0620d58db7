"""The client on an event loop: the same answers, many waits at once, and a wait that is given up."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from restrike import AsyncClient, Client, NotFound
from restrike.client import Workflow
from restrike.server.jobs.model import JobState
from serving import Server, until


def test_many_wait_at_once(server: Server, tmp_path: Path) -> None:
    async def work() -> None:
        client = AsyncClient(server.url)
        jobs = [await client.generate("a two", card="digits", steps=2, seed=seed) for seed in range(12)]
        ended = await asyncio.gather(*(client.wait(job.id) for job in jobs))
        assert {job.state for job in ended} == {JobState.SUCCEEDED}
        kinds = [event.kind async for event in client.events(jobs[0].id)]
        assert kinds[-1] == "state"
        assert len(await client.save(jobs[0].id, tmp_path)) == 1
        with pytest.raises(NotFound):
            await client.job("nothing")

    asyncio.run(work())


def test_a_wait_that_is_given_up_ends_its_thread_and_leaves_the_job(server: Server) -> None:
    async def work() -> str:
        client = AsyncClient(server.url)
        job = await client.generate("a two", card="digits", steps=1000, seed=3)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.wait(job.id), 0.5)
        assert not (await client.job(job.id)).state.is_final
        await client.cancel(job.id)
        await client.wait(job.id)
        return job.id

    name = asyncio.run(work())
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "restrike-client"])
    assert Client(server.url).job(name).state is JobState.CANCELLED


def test_every_method_is_there_under_the_same_name() -> None:
    def names(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    # What a thread closes, and what does not wait, only the other has.
    assert names(Client) - names(AsyncClient) == {"following", "happened"}
    assert names(AsyncClient) <= names(Client)


def test_a_plan_is_the_same(server: Server) -> None:
    step = {"generate": "digits", "arguments": {"prompt": "a four"}, "seed": 1}
    work = Workflow(definition={"name": "four", "steps": {"made": step}})
    assert asyncio.run(AsyncClient(server.url).plan(work)) == Client(server.url).plan(work)

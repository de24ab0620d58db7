"""Where jobs go among real workers, and what they say of it: weights, what is armed, measured times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from restrike.server.jobs.model import Job, JobKind, JobState, Outcome, Submission, WorkerFacts
from restrike.server.place import DEFAULT_WORKSPACE
from restrike.server.routing import HANDOVER_S
from restrike.server.workers import Report, WorkerRow
from restrike.store.owner import Owner
from server.pool.house import House

Make = Callable[..., House]


def took(house: House, device: str, seconds: float) -> None:
    """Three jobs that took so long on a device."""
    for _ in range(3):
        house.generate("three", seed=1, steps=2)
        job = house.queue.claim(WorkerFacts(id="earlier", device=device, memory_bytes=1 << 40))
        assert job is not None
        record = {"seconds": {"picture": seconds}, "reused": []}
        house.queue.finish(job.id, job.attempt, Outcome(state=JobState.SUCCEEDED, record=record))


def needing(house: House, weights: str, seed: int) -> Job:
    """A generation that says which weights it reads, as what comes over HTTP does."""
    body = {"card": "digits", "prompt": "three", "steps": 2, "seed": seed}
    asked = Submission(
        kind=JobKind.GENERATION, body=body, workspace=DEFAULT_WORKSPACE, needs=(weights,), need_bytes=1
    )
    job = house.queue.submit(asked)
    assert house.pool is not None
    house.pool.look()
    return house.ended(job)


def test_of_two_free_workers_the_one_that_history_says_ends_sooner_works(make: Make) -> None:
    house = make(devices="cpu:0,cpu:1")
    took(house, "cpu:0", 900.0)
    took(house, "cpu:1", 30.0)
    house.open()

    jobs = [house.ended(house.generate("three", seed=seed, steps=2)) for seed in range(2, 5)]

    said = [(job.device, job.why) for job in jobs]
    reason = "first in line when it was free; such jobs took 30.0 s there, 900.0 s on cpu:0"
    # On a machine that is very busy the other may look too late, and the job says so.
    late = f"it waited for over {HANDOVER_S:.0f} s, and cpu:1, which ends such jobs sooner, did not look"
    assert ("cpu:1", reason) in said
    assert {("cpu:1", reason), ("cpu:0", late)} >= set(said), said
    # The control: of another size nothing was measured.
    other = house.ended(house.generate("three", seed=9, steps=3))
    assert other.why == "first in line when it was free"


def test_a_job_waits_a_moment_for_who_is_armed_and_no_longer(make: Make) -> None:
    house = make()
    house.open()
    weights = house.ended(house.generate("two", seed=7, steps=2)).record["generations"]["picture"]["weights"]
    house.until_holds(weights)
    assert needing(house, weights, 1).why == "its weights are loaded there"

    here = str(Owner.here())
    other = WorkerRow(id="other", device="cpu:9", owner=here, server=here, memory_bytes=1 << 40)
    house.workers.register(other)
    # A look that began before the other was there knows nothing of it: the first job may be taken by that.
    jobs = [beside(house, other, weights, seed, armed=(weights,)) for seed in (2, 3)]
    armed = "cpu:9, which has graphs or cells ready for it"
    assert jobs[1].why == f"it waited for over {HANDOVER_S:.0f} s, and {armed}, did not look"
    assert jobs[1].device == "cpu:0"
    assert jobs[1].started is not None
    assert jobs[1].started - jobs[1].created >= HANDOVER_S
    # The control: for who has no more than this one, nobody waits.
    jobs = [beside(house, other, weights, seed, armed=()) for seed in (4, 5)]
    assert jobs[1].why == "its weights are loaded there"


def beside(house: House, other: WorkerRow, weights: str, seed: int, *, armed: tuple[str, ...]) -> Job:
    """A generation that ended while another worker was heard, held these weights, and took nothing."""
    house.workers.beat(replace(other, report=Report(resident=(weights,), armed=armed)))
    return needing(house, weights, seed)

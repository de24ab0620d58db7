"""Routing as a pure function: its promises hold for any queue and any workers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from restrike.server.jobs.model import Job, JobKind, JobState, WorkerFacts
from restrike.server.routing import OVERTAKING_S, PATIENCE_S, choose

_NOW = 1000.0


def _job(name: str, *, priority: int = 0, needs: str = "", size: int = 1, created: float = _NOW) -> Job:
    return Job(
        id=name,
        kind=JobKind.GENERATION,
        body={},
        body_digest="",
        workspace="main",
        state=JobState.QUEUED,
        priority=priority,
        position=0.0,
        created=created,
        needs=(needs,) if needs else (),
        need_bytes=size,
    )


def _worker(name: str, *resident: str, memory: int = 10) -> WorkerFacts:
    return WorkerFacts(id=name, device=name, memory_bytes=memory, resident=resident)


_jobs = st.lists(
    st.builds(
        _job,
        st.uuids().map(str),
        priority=st.integers(0, 2),
        needs=st.sampled_from(["", "a", "b", "c"]),
        size=st.integers(1, 20),
        created=st.sampled_from([_NOW, _NOW - 5, _NOW - 60]),
    ),
    max_size=12,
)
_workers = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3).map(lambda held: _worker("w", *held))


@given(jobs=_jobs, worker=_workers, other=_workers)
def test_what_is_chosen_fits_and_no_higher_priority_fits(
    jobs: list[Job], worker: WorkerFacts, other: WorkerFacts
) -> None:
    found = choose(jobs, worker, (other,), _NOW)
    fitting = [job for job in jobs if job.need_bytes <= worker.memory_bytes]
    if found is not None:
        assert found.job in fitting
        assert found.job.priority == max(job.priority for job in fitting)
        assert found.why


@given(jobs=_jobs, worker=_workers)
def test_a_worker_alone_is_never_idle_while_something_fits(jobs: list[Job], worker: WorkerFacts) -> None:
    fitting = any(job.need_bytes <= worker.memory_bytes for job in jobs)
    assert (choose(jobs, worker, (), _NOW) is not None) == fitting


def test_weights_that_are_loaded_go_before_the_order() -> None:
    found = choose([_job("first", needs="a"), _job("second", needs="b")], _worker("w", "b"), (), _NOW)
    assert found is not None
    assert (found.job.id, found.why) == ("second", "w holds its weights")


def test_a_job_is_left_to_the_worker_that_holds_its_weights_but_not_for_ever() -> None:
    warm, cold = _worker("warm", "a"), _worker("cold")
    job = _job("one", needs="a")
    assert choose([job], cold, (warm,), _NOW) is None
    late = choose([job], cold, (warm,), _NOW + PATIENCE_S)
    assert late is not None
    assert "warm holds its weights but was busy" in late.why


def test_a_small_job_passes_one_that_does_not_fit() -> None:
    found = choose([_job("big", size=99), _job("small")], _worker("w"), (), _NOW)
    assert found is not None
    assert found.job.id == "small"


def test_no_stream_of_others_holds_a_job_up() -> None:
    worker, now, passed = _worker("w", "b"), _NOW, 0
    first, stream = _job("first", needs="a"), [_job("b0", needs="b")]
    while (found := choose([first, *stream], worker, (), now)) is not None and found.job is not first:
        passed, now = passed + 1, now + 5
        stream = [_job(f"b{passed}", needs="b", created=now)]  # Always another one whose weights are loaded.
    assert 0 < passed <= OVERTAKING_S / 5


def test_a_job_from_the_future_is_not_left_to_another_for_long() -> None:
    job = _job("one", needs="a", created=_NOW + 3600)  # The clock was set back since.
    assert choose([job], _worker("cold"), (_worker("warm", "a"),), _NOW) is not None

"""Routing as a pure function: its promises hold for any queue and any workers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restrike.server import routing
from restrike.server.jobs.model import Job, JobKind, JobState, WorkerFacts
from restrike.server.routing import HANDOVER_S, OVERTAKING_S, PATIENCE_S, Took, choose, likeness

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


def _worker(
    name: str, *resident: str, memory: int = 10, armed: tuple[str, ...] = (), free: bool = False
) -> WorkerFacts:
    return WorkerFacts(
        id=name, device=name, memory_bytes=memory, resident=resident, armed=armed, is_free=free
    )


def _took(job: Job, **seconds: float) -> Took:
    """That jobs like this one took so long by device."""
    return {likeness(job.kind, job.label, job.needs, job.body): seconds}


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
    assert (found.job.id, found.why) == ("second", "its weights are loaded there")


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


# Between free workers.

_WEIGHTS = ("a", "b", "c")
_held = st.lists(st.sampled_from(_WEIGHTS), max_size=3, unique=True)


@st.composite
def _houses(draw: st.DrawFn) -> tuple[WorkerFacts, ...]:
    """Up to four workers of different names, all free, of what they hold something armed."""
    found: list[WorkerFacts] = []
    for number in range(draw(st.integers(1, 4))):
        held = draw(_held)
        armed = tuple(weights for weights in held if draw(st.booleans()))
        memory = draw(st.sampled_from([10, 20]))
        found.append(_worker(f"w{number}", *held, memory=memory, armed=armed, free=True))
    return tuple(found)


_seconds = st.dictionaries(st.sampled_from(["w0", "w1", "w2", "w3"]), st.sampled_from([1.0, 1.1, 2.0, 9.0]))


@given(jobs=_jobs, workers=_houses(), data=st.data())
def test_of_free_workers_one_takes_a_job_at_once(
    jobs: list[Job], workers: tuple[WorkerFacts, ...], data: st.DataObject
) -> None:
    took = {like: seconds for job in jobs for like, seconds in _took(job, **data.draw(_seconds)).items()}
    choices = [choose(jobs, worker, workers, _NOW, took) for worker in workers]
    fitting = any(job.need_bytes <= worker.memory_bytes for job in jobs for worker in workers)
    assert any(choices) == fitting


@given(jobs=_jobs, workers=_houses(), data=st.data())
def test_no_preference_starves_a_job(
    jobs: list[Job], workers: tuple[WorkerFacts, ...], data: st.DataObject
) -> None:
    took = {like: seconds for job in jobs for like, seconds in _took(job, **data.draw(_seconds)).items()}
    late = _NOW + PATIENCE_S
    for worker in workers:
        found = choose(jobs, worker, workers, late, took)
        assert (found is not None) == any(job.need_bytes <= worker.memory_bytes for job in jobs)


def test_a_preference_without_an_end_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    warm, armed = _worker("warm", "a", free=True), _worker("armed", "a", armed=("a",), free=True)
    jobs = [_job("one", needs="a")]
    assert choose(jobs, warm, (armed,), _NOW + PATIENCE_S) is not None
    monkeypatch.setattr(routing, "HANDOVER_S", float("inf"))
    assert choose(jobs, warm, (armed,), _NOW + PATIENCE_S) is None


def test_a_job_goes_to_the_free_worker_that_is_armed_for_it() -> None:
    job, warm = _job("one", needs="a"), _worker("warm", "a", free=True)
    armed = _worker("armed", "a", armed=("a",), free=True)
    assert choose([job], warm, (armed,), _NOW) is None
    found = choose([job], armed, (warm,), _NOW)
    assert found is not None
    assert found.why == "its weights are loaded there, with graphs or cells ready for it"
    # Who is busy is waited for only by those who would have to load the weights.
    assert choose([job], warm, (replace(armed, is_free=False),), _NOW) is not None
    late = choose([job], warm, (armed,), _NOW + HANDOVER_S)
    assert late is not None
    assert "armed, which has graphs or cells ready for it, did not look" in late.why


def test_a_free_worker_is_counted_on_for_one_job() -> None:
    warm, armed = _worker("warm", "a", free=True), _worker("armed", "a", armed=("a",), free=True)
    jobs = [_job("first", needs="a"), _job("second", needs="a")]
    found = choose(jobs, warm, (armed,), _NOW)
    assert found is not None
    assert found.job.id == "second"
    first = choose(jobs, armed, (warm,), _NOW)
    assert first is not None
    assert first.job.id == "first"


def test_of_equal_workers_the_one_that_ends_such_jobs_sooner_takes_it_and_says_so() -> None:
    job, slow, fast = _job("one"), _worker("slow", free=True), _worker("fast", free=True)
    took = _took(job, slow=9.0, fast=2.0)
    assert choose([job], slow, (fast,), _NOW, took) is None
    found = choose([job], fast, (slow,), _NOW, took)
    assert found is not None
    assert found.why == "first in line when it was free; such jobs took 2.0 s there, 9.0 s on slow"
    assert choose([job], slow, (replace(fast, is_free=False),), _NOW, took) is not None
    late = choose([job], slow, (fast,), _NOW + HANDOVER_S, took)
    assert late is not None
    assert "fast, which ends such jobs sooner, did not look" in late.why


@pytest.mark.parametrize(
    "took",
    [{"slow": 2.1, "fast": 2.0}, {"slow": 9.0}, {"fast": 2.0}, {}],
    ids=["noise", "one", "other", "no"],
)
def test_what_is_not_measured_or_noise_decides_nothing(took: dict[str, float]) -> None:
    job, slow, fast = _job("one"), _worker("slow", free=True), _worker("fast", free=True)
    found = choose([job], slow, (fast,), _NOW, _took(job, **took))
    assert found is not None
    assert found.why == "first in line when it was free"


def test_what_is_resident_goes_before_what_was_measured() -> None:
    job = _job("one", needs="a")
    warm, fast = _worker("warm", "a", free=True), _worker("fast", free=True)
    took = _took(job, warm=9.0, fast=2.0)
    assert choose([job], warm, (fast,), _NOW, took) is not None
    assert choose([job], fast, (warm,), _NOW, took) is None


def test_generations_of_one_size_are_alike_and_of_another_are_not() -> None:
    def like(kind: JobKind = JobKind.GENERATION, **body: object) -> tuple[str, ...]:
        return likeness(kind, "digits", ("a",), body)

    assert like(prompt="a seven", steps=4) == like(prompt="an eight", steps=4)
    assert like(steps=4) != like(steps=8)
    assert like(JobKind.WORKFLOW, steps=4) == like(JobKind.WORKFLOW, steps=8) != like()


def test_no_stream_of_jobs_that_are_armed_holds_one_up() -> None:
    worker, now, passed = _worker("w", "a", "b", armed=("b",), free=True), _NOW, 0
    other = _worker("other", "a", armed=("a",), free=True)
    first, stream = _job("first", needs="a"), [_job("b0", needs="b")]
    while (found := choose([first, *stream], worker, (other,), now)) is not None and found.job is not first:
        passed, now = passed + 1, now + 1
        stream = [_job(f"b{passed}", needs="b", created=now)]
    assert passed <= HANDOVER_S

"""Jobs through real workers: what is made, told and recorded, and what a failure costs."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from restrike.server.jobs.model import JobState
from server.pool.house import House, digit, flow, peril


def test_a_generation_becomes_a_run_with_events_and_a_record(pair: House) -> None:
    job = pair.ended(pair.generate("three", seed=1, steps=4))

    assert job.state is JobState.SUCCEEDED
    made = job.record["generations"]["picture"]
    assert made["card"] == "digits"
    assert made["seed"] == 1
    assert made["weights"]
    assert job.record["computed"] == ["picture"]
    assert job.record["rss_bytes"] > 100 << 20  # torch alone is more
    assert job.device in ("cpu:0", "cpu:1")
    (step,) = pair.manifest(job).steps
    data = (pair.place.workspace("default") / str(job.run) / step.files[0].file).read_bytes()
    (artifact,) = pair.events(job, "artifact")
    assert artifact.data["sha256"] == hashlib.sha256(data).hexdigest()


def test_progress_is_told_step_by_step_with_previews(pair: House) -> None:
    job = pair.ended(pair.generate("five", seed=2, steps=4))

    told = [(event.data["done"], event.data["total"]) for event in pair.events(job, "progress")]
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    previews = pair.events(job, "preview")
    assert [event.data["done"] for event in previews] == [2, 4]
    for event in previews:
        assert pair.place.preview(event.data["file"]).read_bytes()[:4] == b"RIFF"
    kinds = [event.kind for event in pair.events(job)]
    assert kinds[:2] == ["state", "state"]
    assert kinds[-1] == "state"


def test_progress_says_which_of_how_many_pictures_it_is(pair: House) -> None:
    job = pair.ended(pair.generate("five", seed=2, steps=2, items=[0, 1]))

    told = [event.data for event in pair.events(job, "progress")]
    places = [(data["picture"], data["pictures"], data["done"], data["total"]) for data in told]
    assert places == [(1, 2, 0, 2), (1, 2, 1, 2), (1, 2, 2, 2), (2, 2, 1, 2), (2, 2, 2, 2)]


def test_the_bytes_are_those_of_a_session_without_a_server(pair: House) -> None:
    job = pair.ended(pair.generate("eight", seed=3, steps=4))
    again = pair.ended(pair.submit(flow(("picture", digit(seed=3, prompt="eight"))), reuse=False))

    (first,), (second,) = pair.manifest(job).steps, pair.manifest(again).steps
    assert second.status == "computed"
    assert first.value == second.value
    other = pair.ended(pair.generate("eight", seed=4, steps=4))
    assert pair.manifest(other).steps[0].value != first.value


def test_a_second_job_reuses_what_the_first_computed(pair: House) -> None:
    definition = flow(("base", digit(seed=77)))
    pair.ended(pair.submit(definition))

    job = pair.ended(pair.submit(definition))

    assert job.record["reused"] == ["base"]
    assert job.record["computed"] == []


def test_two_workers_run_two_jobs_at_once(pair: House) -> None:
    jobs = [pair.submit(flow(("wait", peril("sleep", seconds=1.0)), name=name)) for name in ("one", "two")]

    both = [pair.ended(job) for job in jobs]

    assert {job.device for job in both} == {"cpu:0", "cpu:1"}
    assert max(job.started or 0.0 for job in both) < min(job.ended or 0.0 for job in both)


@pytest.mark.parametrize(
    ("step", "kind", "says"),
    [
        (peril("exhaust"), "Shortfall", "out of memory"),
        (peril("sleep", seconds="long"), "Refused", "seconds"),
        ({"generate": "digits", "arguments": {"prompt": "one", "steps": -1}}, "Refused", "steps"),
        ({"generate": "nothing", "arguments": {"prompt": "one"}}, "Refused", "nothing"),
    ],
)
def test_a_failure_has_its_class_and_a_remedy_and_costs_the_worker_nothing(
    pair: House, step: dict[str, object], kind: str, says: str
) -> None:
    before = [seat.pid for seat in pair.pool.seats()] if pair.pool else []

    job = pair.ended(pair.submit(flow(("bad", step))))

    assert job.state is JobState.FAILED, job
    assert job.failure is not None
    assert job.failure.kind == kind
    assert says in job.failure.reason
    assert job.failure.remedy
    assert pair.pool is not None
    assert [seat.pid for seat in pair.pool.seats()] == before
    assert pair.ended(pair.generate("one", seed=5, steps=2)).state is JobState.SUCCEEDED


def test_a_failed_step_is_named_and_what_was_finished_is_kept(pair: House) -> None:
    steps = ("good", digit(seed=123)), ("bad", peril("exhaust", value="$step.good"))
    job = pair.ended(pair.submit(flow(*steps)))

    assert job.failure is not None
    assert job.failure.step == "bad"
    assert job.record["computed"] == ["good"]


def test_a_prompt_that_looks_like_a_reference_is_a_prompt(pair: House) -> None:
    job = pair.ended(pair.generate("$step.base", seed=6, steps=2))

    assert job.state is JobState.SUCCEEDED or "digit" in str(job.failure), job


def test_weights_are_told_once_they_are_held(pair: House) -> None:
    job = pair.ended(pair.generate("two", seed=7, steps=2))
    weights = job.record["generations"]["picture"]["weights"]

    pair.until_holds(weights)

    (row, *_) = [row for row in pair.workers.all() if weights in row.report.resident]
    assert row.report.rss_bytes > row.report.resident_bytes > 0


def test_later_workers_go_first_when_memory_runs_out(pair: House) -> None:
    assert pair.pool is not None
    pids = ["self", *(str(seat.pid) for seat in pair.pool.seats())]

    scores = [int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in pids]

    assert scores == sorted(set(scores))


def test_the_server_is_nudged_when_something_is_written(pair: House) -> None:
    job = pair.ended(pair.generate("six", seed=8, steps=20))
    pair.ended(pair.generate("six", seed=9, steps=2))

    delays = sorted(
        min((at - event.time for at in pair.nudged_s if at >= event.time), default=99.0)
        for event in pair.events(job)[1:]
    )

    # Polling alone would be slower; a busy machine may be late now and then.
    assert delays[len(delays) // 2] < 0.1, delays


def test_a_pool_needs_no_torch() -> None:
    code = "import restrike.server.pool, sys; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_database_password_stands_on_no_command_line() -> None:
    from restrike.server.pool import _apart

    url, environment = _apart("postgresql+psycopg://me:secret@host/name", {"A": "1"})

    assert url == "postgresql+psycopg://me@host/name"
    assert environment == {"A": "1", "PGPASSWORD": "secret"}
    assert json.dumps(_apart("sqlite:////data/x.sqlite", {})) == '["sqlite:////data/x.sqlite", {}]'

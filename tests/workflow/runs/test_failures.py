"""What fails loses nothing that was finished; a store that is damaged or full costs work, never an answer."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import restrike.store.blobs as blobs_module
from restrike.errors import Cancelled, Crashed, Refused, RestrikeError
from restrike.store.store import Store
from restrike.workflow.runs import RunFolder
from restrike.workflow.session import Watch

from .lab import Lab, computed, digit, does, files, resized, steps

TWO = steps(base=digit(), big={**resized("$step.base"), "result": {"container": "png"}})


def blob_paths(lab: Lab) -> list[Path]:
    return sorted((lab.root / "store" / "blobs").glob("??/*"))


def latest(lab: Lab) -> RunFolder:
    return RunFolder.open(lab.root / lab.workspace, "w/latest")


def test_a_failed_run_keeps_its_finished_steps(lab: Lab) -> None:
    gate = lab.root / "gate"
    tree = steps(base=digit(), last={"task": "own.fails", "arguments": {"text": "x", "unless": str(gate)}})
    tree["steps"]["base"]["result"] = {}
    with pytest.raises(Crashed, match=r"task own\.fails: ValueError: not yet"):
        lab.run(tree)
    manifest = latest(lab).manifest()
    assert manifest.status == "failed"
    assert does(manifest) == {"base": "computed", "last": "failed"}
    assert manifest.error.startswith("last: ")
    gate.touch()
    assert does(lab.run(tree)) == {"base": "reused", "last": "computed"}


def test_a_cancelled_run_keeps_its_finished_steps_and_resumes_in_its_folder(lab: Lab) -> None:
    begun: set[str] = set()

    def check() -> None:
        if "big" in begun:
            raise Cancelled("enough")

    watch = Watch(engine=lambda action, event: begun.add(action), check=check)
    tree = steps(base=digit(), big=digit("a one", guidance=1.5))
    with pytest.raises(Cancelled, match="enough"):
        lab.run(tree, watch=watch)
    assert latest(lab).manifest().status == "cancelled"
    assert does(latest(lab).manifest()) == {"base": "computed", "big": "cancelled"}
    resumed = lab.session.resume("w/latest")
    assert resumed.run == "w/0001"
    assert does(resumed) == {"base": "reused", "big": "computed"}
    assert lab.engine.generations == 3  # one of them was cancelled at its first step
    assert set(files(lab, resumed)) == {"base.png", "big.png"}


@pytest.mark.parametrize("harm", ["flip", "cut", "delete"])
def test_a_damaged_value_is_computed_again_and_said(lab: Lab, harm: str) -> None:
    first = lab.run(TWO)
    expected = files(lab, first)
    for path in blob_paths(lab):
        data = path.read_bytes()
        if harm == "delete":
            path.unlink()
        else:
            path.write_bytes(bytes([data[0] ^ 1]) + data[1:] if harm == "flip" else data[:-1])
    second = lab.run(TWO)
    assert files(lab, second) == expected
    assert {step.action for step in second.steps if "damaged" in step.reason} <= {"base", "big"}
    assert "blob" in second.steps[1].reason
    assert computed(lab.run(TWO)) == set()
    assert lab.store.verify().damaged == ()


def test_a_damaged_input_is_computed_again_where_it_is_read(lab: Lab) -> None:
    lab.run(TWO)
    for path in blob_paths(lab):
        path.unlink()
    edited = steps(base=digit(), big=resized("$step.base", 20))
    manifest = lab.run(edited)
    assert does(manifest) == {"base": "computed", "big": "computed"}
    assert "missing" in manifest.steps[0].reason
    assert does(latest(lab).manifest()) == does(manifest)


def test_a_damaged_file_is_encoded_again_from_the_value(lab: Lab) -> None:
    expected = files(lab, lab.run(TWO))
    for path in blob_paths(lab):
        if path.read_bytes()[:4] == b"\x89PNG":
            path.write_bytes(b"spoiled")
    second = lab.run(TWO)
    assert computed(second) == set()
    assert not second.steps[1].files[0].reused
    assert files(lab, second) == expected


def test_what_gives_another_value_after_damage_is_refused_and_then_used(lab: Lab) -> None:
    tree = steps(
        base={"task": "own.clock", "result": {}},
        last={"task": "own.list", "arguments": {"count": 2}},
    )
    lab.run(tree)
    lab.run(tree)
    assert lab.run(tree, reuse=False).steps[0].reason.startswith("reuse is off; not deterministic")
    assert does(lab.run(tree))["base"] == "reused"


def test_a_truncated_index_is_begun_anew(lab: Lab) -> None:
    expected = files(lab, lab.run(TWO))
    lab.store._database._engine.dispose()
    index = lab.root / "store" / "index.sqlite"
    for name in ("index.sqlite-wal", "index.sqlite-shm"):
        (index.parent / name).unlink(missing_ok=True)
    index.write_bytes(index.read_bytes()[: index.stat().st_size // 2])
    again = lab.restarted()
    assert again.store.notice is not None
    assert "set aside" in again.store.notice
    second = again.run(TWO)
    assert computed(second) == {"base", "big"}
    assert files(again, second) == expected
    assert computed(again.run(TWO)) == set()


@pytest.mark.parametrize("first", [0, 1])
def test_a_full_disk_costs_the_keeping_and_nothing_else(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """The store's disk is full from the start or after the first blob; the run's own folder has room."""
    written = 0

    def full(path: Path, data: object) -> None:
        nonlocal written
        written += 1
        if written > first:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        path.write_bytes(data)  # type: ignore[arg-type]

    monkeypatch.setattr(blobs_module, "write_synced", full)
    manifest = lab.run(TWO)
    assert manifest.status == "finished"
    assert "not kept: no space left" in manifest.steps[1].reason
    bytes_then = files(lab, manifest)
    monkeypatch.undo()
    second = lab.run(TWO)
    assert len(computed(second)) == 2 - first
    assert files(lab, second) == bytes_then


def test_an_index_on_a_full_disk_costs_the_keeping_and_nothing_else(lab: Lab) -> None:
    expected = files(lab, lab.run(TWO))
    with lab.store._database.write() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    original = lab.store._database.write

    from contextlib import contextmanager

    @contextmanager
    def full() -> Any:
        with original() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
            yield connection
            from restrike.errors import Shortfall

            raise Shortfall("the store's index: database or disk is full")

    lab.store._database.write = full  # type: ignore[method-assign]
    reused = lab.run(TWO)
    assert computed(reused) == set()
    edited = lab.run(steps(base=digit(), big=resized("$step.base", 20)))
    assert does(edited) == {"base": "reused", "big": "computed"}
    assert "disk is full" in edited.steps[1].reason
    assert files(lab, reused) == expected


def test_a_store_that_cannot_be_written_is_read_and_said(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = files(lab, lab.run(TWO))
    monkeypatch.setattr(lab.store._database, "writable", False)
    second = lab.run(TWO)
    assert computed(second) == set()
    assert files(lab, second) == expected
    third = lab.run(steps(base=digit(), big=resized("$step.base", 20)))
    assert does(third) == {"base": "reused", "big": "computed"}
    assert "cannot be written" in third.steps[1].reason
    assert third.steps[1].files[0].size_bytes > 0


def test_a_damaged_value_in_a_store_that_cannot_be_written(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = files(lab, lab.run(TWO))
    for path in blob_paths(lab):
        path.write_bytes(b"spoiled")
    monkeypatch.setattr(lab.store._database, "writable", False)
    second = lab.run(TWO)
    assert files(lab, second) == expected


@pytest.mark.parametrize("kept", [False, True])
def test_a_step_that_changes_its_input_is_found(lab: Lab, kept: bool) -> None:
    numbers = {"task": "own.list", "arguments": {"count": 3}, "result": {}}
    tree = steps(numbers=numbers, spoiled={"task": "own.spoil", "arguments": {"numbers": "$step.numbers"}})
    if kept:
        lab.run(steps(numbers=numbers))
    with pytest.raises(Refused, match=r"own\.spoil changed its input 'numbers'"):
        lab.run(tree)
    assert does(latest(lab).manifest())["spoiled"] == "failed"
    again = lab.run(steps(numbers=numbers))
    assert computed(again) == set()
    assert files(lab, again)["numbers.json"] == b"[\n  0,\n  1,\n  2\n]\n"


@pytest.mark.parametrize("kept", [False, True])
def test_a_step_that_paints_on_its_input_is_found(lab: Lab, kept: bool) -> None:
    tree = steps(base=digit(), stained={"task": "own.stain", "arguments": {"clip": "$step.base"}})
    if kept:
        lab.run(steps(base=digit()))
    with pytest.raises(RestrikeError, match=r"own\.stain.*(changed its input 'base'|read-only)"):
        lab.run(tree)
    assert does(latest(lab).manifest())["stained"] == "failed"


def test_nan_in_an_argument_runs_uncached_and_says_so(lab: Lab) -> None:
    tree = steps(odd={"task": "own.nan"}, shown={"task": "own.show", "arguments": {"value": "$step.odd"}})
    first = lab.run(tree)
    assert "NaN" in first.steps[0].reason
    assert "'odd' has no key" in first.steps[1].reason
    assert computed(lab.run(tree)) == {"odd", "shown"}
    constant = steps(shown={"task": "own.show", "arguments": {"value": {"n": float("nan")}}})
    manifest = lab.run(constant)
    assert "NaN" in manifest.steps[0].reason
    assert "arguments.value.n" in manifest.steps[0].reason
    assert "NaN" in lab.plan(constant).rows[0].reason
    assert computed(lab.run(constant)) == {"shown"}
    assert list(files(lab, manifest)) == ["shown.txt"]


def test_nan_in_an_argument_of_a_picture_is_written_into_it_by_name(lab: Lab) -> None:
    tree = steps(
        base=digit(), kept={"task": "own.keep", "arguments": {"clip": "$step.base", "note": float("nan")}}
    )
    manifest = lab.run(tree)
    assert manifest.steps[1].files[0].file == "kept.png"


def test_a_task_with_side_effects_always_runs_and_its_readers_do_not(lab: Lab) -> None:
    tree = steps(
        effect={"task": "own.counted", "arguments": {"log": str(lab.log)}},
        other={"task": "own.list", "arguments": {"count": 2}},
    )
    first, second = lab.run(tree), lab.run(tree)
    assert does(second) == {"effect": "computed", "other": "reused"}
    assert "side effects" in second.steps[0].reason
    assert lab.plan(tree).rows[0].reason == "task own.counted declares side effects"
    assert files(lab, first)["effect.json"] == b"1\n"
    assert files(lab, second)["effect.json"] == b"2\n"


def test_a_drawn_seed_is_reused_only_by_its_record(lab: Lab) -> None:
    tree = {"seed": "random", "steps": {"roll": {"task": "own.random", "arguments": {"log": str(lab.log)}}}}
    first, second = lab.run(tree), lab.run(tree)
    assert computed(second) == {"roll"}
    assert first.seed != second.seed
    assert computed(lab.run(tree, seed=first.seed)) == set()
    assert does(lab.session.resume(first.run)) == {"roll": "reused"}
    assert lab.calls() == 2


def test_a_failure_names_the_step_and_is_one_line(lab: Lab) -> None:
    with pytest.raises(RestrikeError) as caught:
        lab.run(steps(a={"task": "own.fails", "arguments": {"text": "a\nb", "unless": "/nowhere"}}))
    assert "\n" not in caught.value.message


def test_waiting_for_another_process_can_be_cancelled(lab: Lab) -> None:
    from restrike.store.owner import Owner

    tree = steps(a={"task": "own.list", "arguments": {"count": 2}})
    key = lab.run(tree).steps[0].key
    entry = lab.store.find(str(key))
    lab.store.remove(entry.key)
    lab.store.leases.take(f"flight {key}", Owner.here())
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks > 3:
            raise Cancelled("stopped while waiting")

    with pytest.raises(Cancelled, match="while waiting"):
        lab.run(tree, watch=Watch(check=check))
    assert latest(lab).manifest().status == "cancelled"


def test_a_store_of_another_object_sees_the_same(lab: Lab) -> None:
    lab.run(TWO)
    assert Store(lab.root / "store").stats().entries == lab.store.stats().entries

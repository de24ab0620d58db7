"""Run folders: numbers, names, resuming, running again, deleting; nothing outside the workspace."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from restrike.errors import Crashed, NotFound, Refused
from restrike.workflow import runner
from restrike.workflow.held import Held
from restrike.workflow.runner import StepEnded
from restrike.workflow.runs import Manifest, RunFolder, list_runs
from restrike.workflow.session import Asked, Watch
from restrike.workflow.source import read_file
from restrike.workflow.workspace import scope_of

from .lab import Lab, computed, digit, does, files, resized, steps

ROLL = {"seed": "random", "steps": {"roll": digit()}}


def test_processes_that_begin_at_once_get_folders_and_one_name_of_the_workspace(tmp_path: Path) -> None:
    for _ in range(5):
        read, write = os.pipe()
        children = []
        for _ in range(4):
            pid = os.fork()
            if pid == 0:
                name = RunFolder.create(tmp_path, "w").name
                os.write(write, f"{name} {scope_of(tmp_path, 'workspace', create=True)}\n".encode())
                os._exit(0)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)
        os.close(write)
        with os.fdopen(read) as said:
            lines = [line.split(" ", 1) for line in said.read().splitlines()]
        assert len({name for name, _ in lines}) == 4
        assert len({scope for _, scope in lines}) == 1
    assert sorted(path.name for path in (tmp_path / "w").iterdir()) == [f"{n:04d}" for n in range(1, 21)]


def test_deleting_a_run_leaves_a_gap(lab: Lab) -> None:
    tree = steps(a={"task": "own.list", "arguments": {"count": 1}})
    runs = [lab.run(tree).run for _ in range(3)]
    assert runs == ["w/0001", "w/0002", "w/0003"]
    RunFolder.open(lab.root / lab.workspace, "w/2").delete()
    assert lab.run(tree).run == "w/0004"
    assert [f.name for f in list_runs(lab.root / lab.workspace)] == ["w/0001", "w/0003", "w/0004"]
    with pytest.raises(NotFound, match="0001, 0003, 0004"):
        RunFolder.open(lab.root / lab.workspace, "w/0002")


@pytest.mark.parametrize("name", ["../0001", "/0001", "..", "w/../0001", "a/b/0001", "", "./0001"])
def test_a_run_outside_the_workspace_has_no_name(lab: Lab, name: str) -> None:
    lab.run(steps(a={"task": "own.list", "arguments": {"count": 1}}))
    (lab.root / "0001").mkdir()
    with pytest.raises(NotFound):
        RunFolder.open(lab.root / lab.workspace, name)


def test_a_folder_that_no_run_made_is_not_deleted(lab: Lab) -> None:
    mine = lab.root / lab.workspace / "assets" / "0001"
    mine.mkdir(parents=True)
    (mine / "photo.txt").write_text("mine")
    with pytest.raises(Refused, match="no run made"):
        RunFolder.open(lab.root / lab.workspace, "assets/0001").delete()
    assert list(list_runs(lab.root / lab.workspace)) == []


def test_a_run_that_died_on_another_host_is_not_running_for_ever(lab: Lab) -> None:
    """A container that is started again has another name; the lock died with the old one."""
    folder = RunFolder.open(
        lab.root / lab.workspace, lab.run(steps(a={"task": "own.list", "arguments": {"count": 1}})).run
    )
    folder.write(replace(folder.manifest(), status="running", owner="elsewhere/1 5 1 abc"))
    assert lab.session.resume(folder.name).status == "finished"
    folder.write(replace(folder.manifest(), status="running", owner="elsewhere/1 5 1 abc"))
    with folder.worked_on(), pytest.raises(Refused, match="still running"):
        lab.session.resume(folder.name)
    folder.delete()
    assert not folder.path.exists()


def test_a_run_is_run_again_with_its_seed_or_another(lab: Lab) -> None:
    first = lab.run(ROLL)
    definition = read_file(RunFolder(lab.folder(first)).definition())
    assert definition.definition.seed == first.seed
    again = lab.session.run(definition, Asked())
    assert (again.run, again.seed) == ("w/0002", first.seed)
    assert computed(again) == set()
    other = lab.session.run(definition, Asked(seed=first.seed + 1))
    assert computed(other) == {"roll"}
    assert files(lab, other) != files(lab, first)


def test_the_definition_of_a_run_outlives_the_prompts_and_files_it_read(lab: Lab) -> None:
    prompts = lab.root / lab.workspace / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "mine.txt").write_text("a four")
    first = lab.run(steps(base=digit("$prompt.mine")))
    (prompts / "mine.txt").write_text("a nine")
    again = lab.session.run(read_file(RunFolder(lab.folder(first)).definition()), Asked())
    assert computed(again) == set()
    assert files(lab, again) == files(lab, first)


def test_the_manifest_is_true_after_each_step(lab: Lab) -> None:
    seen: list[dict[str, str]] = []

    def watch(event: object) -> None:
        if isinstance(event, StepEnded):
            folder = RunFolder.open(lab.root / lab.workspace, "w/latest")
            manifest = folder.manifest()
            assert manifest.status == "running"
            seen.append(does(manifest))
            for file in event.record.files:
                assert (folder.path / file.file).stat().st_size == file.size_bytes

    lab.run(steps(base=digit(), big=resized("$step.base")), watch=Watch(run=watch))
    assert seen == [{"base": "computed"}, {"base": "computed", "big": "computed"}]


def test_resuming_keeps_what_was_finished_in_the_manifest_while_it_runs(lab: Lab) -> None:
    gate = lab.root / "gate"
    tree = steps(
        first={"task": "own.fails", "arguments": {"text": "1", "unless": str(gate)}, "result": {}},
        kept={"task": "own.shout", "arguments": {"text": "x", "log": str(lab.log)}, "result": {}},
    )
    tree["steps"] = dict(reversed(tree["steps"].items()))
    with pytest.raises(Crashed):
        lab.run(tree)
    seen: list[dict[str, str]] = []
    folder = RunFolder.open(lab.root / lab.workspace, "w/latest")
    # What a process leaves that is killed while it writes, and a file of somebody's own.
    torn, own = folder.path / f".{'0a' * 8}.part", folder.path / ".mine.part"
    torn.touch(), own.touch()
    gate.touch()
    done = lab.session.resume("w/latest", Watch(run=lambda event: seen.append(does(folder.manifest()))))
    assert seen[0] == {"kept": "computed"}
    assert does(done) == {"kept": "reused", "first": "computed"}
    assert done.status == "finished"
    assert lab.calls() == 1
    assert (torn.exists(), own.exists()) == (False, True)


def test_resuming_without_reuse_computes_what_is_left_and_nothing_else(lab: Lab) -> None:
    gate = lab.root / "gate"
    last = {"task": "own.list", "arguments": {"count": 2}}
    lab.run(steps(last=last))
    fails = {"task": "own.fails", "arguments": {"text": "1", "unless": str(gate)}, "result": {}}
    tree = {"name": "w", "steps": {"kept": digit(), "fails": fails, "last": last}}
    with pytest.raises(Crashed):
        lab.run(tree, reuse=False)
    first = RunFolder.open(lab.root / lab.workspace, "w/latest")
    finished = {step.action for step in first.manifest().steps if step.status == "computed"}
    gate.touch()

    done = lab.session.resume(first.name, None, Asked(reuse=False))

    assert {name for name, what in does(done).items() if what == "reused"} == finished
    assert done.status == "finished"


def test_a_torn_manifest_is_refused_in_one_line(lab: Lab) -> None:
    manifest = lab.run(steps(a={"task": "own.list", "arguments": {"count": 1}}))
    folder = RunFolder(lab.folder(manifest))
    (folder.path / "manifest.json").write_text('{"run": 1}')
    with pytest.raises(Refused, match="manifest of run 'w/0001' cannot be read"):
        folder.manifest()


def test_a_manifest_comes_back_as_it_was_written(lab: Lab) -> None:
    manifest = lab.run(steps(base=digit(), big=resized("$step.base")))
    assert isinstance(manifest, Manifest)
    assert RunFolder(lab.folder(manifest)).manifest() == manifest
    tree = json.loads((lab.folder(manifest) / "manifest.json").read_text())
    assert tree["steps"][1]["files"][0]["file"] == "big.png"


def test_a_long_chain_holds_a_bounded_part_of_its_values(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Held.__init__, "__defaults__", (1500,))
    most = 0
    hold = Held.hold

    def watched(self: Held, name: str, value: object, *, stored_bytes: int | None) -> None:
        nonlocal most
        hold(self, name, value, stored_bytes=stored_bytes)
        most = max(most, sum(self._stored_bytes.values()))

    monkeypatch.setattr(Held, "hold", watched)
    chain = {f"s{n}": resized(f"$step.s{n - 1}", 8 + n) for n in range(1, 8)}
    last = {"task": "own.size", "arguments": {"values": [f"$step.s{n}" for n in range(8)]}}
    manifest = lab.run(steps(s0=digit(), **chain, last=last))
    assert len(computed(manifest)) == 9
    assert 0 < most <= 1500


def test_a_value_that_was_dropped_is_read_again() -> None:
    held = Held(limit_bytes=10)
    held.hold("only here", [1], stored_bytes=None)
    held.hold("a", "a", stored_bytes=6)
    held.hold("b", "b", stored_bytes=4)
    assert held["a"] == "a"  # now b is the longest unused
    held.hold("c", "c", stored_bytes=4)
    assert "b" not in held
    assert held["only here"] == [1]
    held.hold("big", "d", stored_bytes=100)
    assert "big" in held
    assert "a" not in held


def test_a_manifest_of_very_many_steps_is_whole_at_the_end(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_WRITTEN_EACH", 2)
    monkeypatch.setattr(runner, "_PAUSE", 1e9)
    written: list[int] = []
    write = RunFolder.write

    def counted(self: RunFolder, manifest: Manifest) -> None:
        written.append(len(manifest.steps))
        write(self, manifest)

    monkeypatch.setattr(RunFolder, "write", counted)
    many = {"task": "own.show", "for_each": list("abcdefgh"), "arguments": {"value": "$item"}}
    manifest = lab.run(steps(many=many))
    assert written == [0, 1, 2, 8]
    assert RunFolder(lab.folder(manifest)).manifest() == manifest
    failing = {"task": "own.fails", "arguments": {"text": "x", "unless": "/nowhere"}}
    written.clear()
    with pytest.raises(Crashed):
        lab.run({"seed": 7, "steps": {"many": many, "bad": failing}})
    assert written[-1] == len(RunFolder.open(lab.root / lab.workspace, "w/latest").manifest().steps)

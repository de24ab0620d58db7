"""What would give a stale result: files that change between key and use, bytes that are read in two ways."""

from __future__ import annotations

from typing import Any

import pytest

from restrike.errors import NotFound, Refused
from restrike.workflow.runs import RunFolder, list_runs

from .lab import Lab, does, files, steps


def _shown(asset: str) -> dict[str, object]:
    return {"task": "own.show", "arguments": {"value": f"$asset.{asset}"}}


def test_equal_bytes_that_are_read_in_two_ways_are_two_inputs(lab: Lab) -> None:
    assets = lab.root / "workspace" / "assets"
    assets.mkdir(parents=True)
    for name in ("list.txt", "list.md", "list.json"):
        (assets / name).write_text("[1, 2]")
    as_text = lab.run(steps(a=_shown("list.txt")))
    as_list = lab.run(steps(a=_shown("list.json")))
    assert files(lab, as_text)["a.txt"] == b"'[1, 2]'\n"
    assert files(lab, as_list)["a.txt"] == b"[1, 2]\n"
    assert does(lab.run(steps(a=_shown("list.md")))) == {"a": "reused"}


def test_an_asset_that_changed_since_it_was_keyed_gives_no_result(lab: Lab) -> None:
    asset = lab.root / "workspace" / "assets" / "a.txt"
    asset.parent.mkdir(parents=True)
    asset.write_text("old")
    # `write` runs first and swaps the asset after all keys are known.
    write = {"task": "own.write", "arguments": {"path": str(asset), "text": "new"}}
    tree = steps(write=write, a=_shown("a.txt"))
    with pytest.raises(Refused, match=r"\$asset\.a\.txt.*changed since the run began"):
        lab.run(tree)
    assert files(lab, lab.run(tree))["a.txt"] == b"'new'\n"
    asset.write_text("old")
    after = lab.run(steps(a=_shown("a.txt")))
    assert does(after) == {"a": "computed"}
    assert files(lab, after)["a.txt"] == b"'old'\n"


@pytest.mark.parametrize("what", ["numpy", "named", "own"])
def test_a_value_is_the_same_in_the_run_that_made_it_and_in_the_next(lab: Lab, what: str) -> None:
    """A task must not see another kind of value when its input is reused."""
    odd = {"task": "own.odd", "arguments": {"what": what}, "result": {"save": False}}

    def kind(note: int) -> dict[str, Any]:
        return {"task": "own.kind", "arguments": {"value": "$step.odd", "note": note}}

    first = lab.run(steps(odd=odd, kind=kind(1)))
    second = lab.run(steps(odd=odd, kind=kind(2)))
    assert files(lab, first)["kind.txt"] == files(lab, second)["kind.txt"]
    kept = {"numpy": True, "named": False, "own": False}[what]
    assert does(second) == {"odd": "reused" if kept else "computed", "kind": "computed"}
    assert kept or "not kept" in second.steps[0].reason


def test_a_damaged_value_that_needs_one_that_was_not_kept_is_told_and_mended_by_the_next_run(
    lab: Lab,
) -> None:
    def tree(note: int) -> dict[str, Any]:
        made = {"task": "own.pixels", "arguments": {"seed": "$step.count"}}
        kind = {"task": "own.kind", "arguments": {"value": "$step.made", "note": note}}
        return steps(count={"task": "own.four", "arguments": {}}, made=made, kind=kind)

    lab.run(tree(1))
    for digest, _, _ in list(lab.store.blobs.present()):
        lab.store.blobs.path(digest).unlink()
    with pytest.raises(Refused, match=r"'count' was not kept.*run again"):
        lab.run(tree(2))
    assert does(lab.run(tree(2))) == dict.fromkeys(("count", "made", "kind"), "computed")


def test_folders_that_are_no_runs_and_torn_manifests_are_in_nobodys_way(lab: Lab) -> None:
    tree = steps(a={"task": "own.four", "arguments": {}})
    torn = lab.folder(lab.run(tree))
    workflow = torn.parent
    for name in ("²", "x", "1" * 30):
        (workflow / name).mkdir()
    for text in ("5", "[1]", "{", '{"owner": "junk", "steps": []}'):
        (torn / "manifest.json").write_text(text)
        with pytest.raises(Refused, match="cannot be read"):
            RunFolder(torn).manifest()
    (workflow / "9999").mkdir()
    tenth = lab.folder(lab.run(tree))
    assert tenth.name == "10000"
    assert [folder.path.name for folder in list_runs(workflow.parent)] == ["0001", "10000"]
    assert RunFolder.open(workflow.parent, "w/latest").path == tenth
    for name in ("w/²", f"w/{'9' * 5000}"):
        with pytest.raises(NotFound):
            RunFolder.open(workflow.parent, name)

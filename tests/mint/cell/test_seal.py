"""One folder and one set of facts give one file; weights and odd files are refused."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from mint.cells import FACTS, MEMBERS, STACK, TARGET, Making, verified
from restrike.errors import NotFound, Refused, RestrikeError
from restrike.keys import Unkeyable, file_digest
from restrike.mint.cell.header import HeaderFacts
from restrike.mint.cell.keyring import Keyring
from restrike.mint.cell.refusal import CellRefusal, CellRefused
from restrike.mint.cell.seal import seal
from restrike.mint.cell.signing import Signer


def packed(folder: Path, to: Path, signer: Signer | None = None) -> Path:
    return seal(folder, header=HeaderFacts(stack=STACK, target=TARGET), manifest=FACTS, signer=signer, to=to)


def test_the_same_tree_gives_the_same_bytes(
    tmp_path: Path, ring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Making().sealed(tmp_path / "one.cell", ring.signer())
    other = tmp_path / "elsewhere" / "other"
    # Made in another order, at another time, of another owner's mode, and packed from within.
    for name in reversed(MEMBERS):
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_bytes(MEMBERS[name])
        (other / name).chmod(0o600)
        os.utime(other / name, (0, 0))
    monkeypatch.chdir(other.parent)
    assert packed(Path("other"), tmp_path / "two.cell", ring.signer()).read_bytes() == one.read_bytes()


def test_a_renamed_member_gives_another_cell(tmp_path: Path, ring: Keyring) -> None:
    one = Making().sealed(tmp_path / "one.cell", ring.signer())
    other = Making(members={"graph.cc": MEMBERS["graph.cpp"], "data/meta.json": MEMBERS["data/meta.json"]})
    assert file_digest(other.sealed(tmp_path / "two.cell", ring.signer())) != file_digest(one)


def test_empty_folders_and_members_leave_no_doubt(tmp_path: Path, ring: Keyring) -> None:
    file = Making(members={"empty": b"", "full": b"x"}).sealed(tmp_path / "a.cell", ring.signer())
    assert [member.size_bytes for member in verified(file, ring)[1].members] == [0, 1]


def test_an_empty_or_missing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty" / "within").mkdir(parents=True)
    for folder in (tmp_path / "empty", tmp_path / "missing"):
        with pytest.raises(NotFound, match=folder.name):
            packed(folder, tmp_path / "a.cell")


def test_a_link_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "code").write_text("x")
    packed(folder, tmp_path / "a.cell")
    (folder / "link").symlink_to("/etc/hostname")
    with pytest.raises(Refused, match="'link' is a link"):
        packed(folder, tmp_path / "a.cell")


def test_weights_beside_the_code_are_refused_and_nothing_is_left(tmp_path: Path, ring: Keyring) -> None:
    with pytest.raises(CellRefused) as caught:
        Making(members={**MEMBERS, "w.safetensors": b"x"}).sealed(tmp_path / "a.cell", ring.signer())
    assert caught.value.reason is CellRefusal.WEIGHTS_INSIDE
    assert "'w.safetensors'" in str(caught.value)
    assert not (tmp_path / "a.cell").exists()


def test_an_option_that_is_no_plain_value_is_refused_by_its_place(tmp_path: Path, ring: Keyring) -> None:
    with pytest.raises(Unkeyable, match="odd"):
        Making().with_facts(options={"odd": object()}).sealed(tmp_path / "a.cell", ring.signer())


def test_a_graph_is_named_by_its_digest() -> None:
    with pytest.raises(Refused, match="64"):
        replace(FACTS, graph="the transformer")


def test_a_failure_to_write_leaves_nothing(tmp_path: Path, ring: Keyring) -> None:
    Making().sealed(tmp_path / "ok.cell", ring.signer())
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(RestrikeError, match="taken"):
        packed(tmp_path / "ok.folder", tmp_path / "taken" / "a.cell")
    assert not list(tmp_path.rglob("*.part"))

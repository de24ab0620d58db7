from __future__ import annotations

import os
from pathlib import Path

import pytest

from restrike.keys import file_digest
from restrike.workflow.references import Asset, Output, StoredPrompt
from restrike.workflow.workspace_files import Absent, WorkspaceFiles


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    for name in (
        "assets/photos/cat.png",
        "assets/dog.png",
        "first/0001/a.png",
        "first/0002/a.png",
        "first/0010/b.png",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (root / "prompts").mkdir()
    (root / "prompts" / "castle.txt").write_text("a castle\nby the sea\n\n")
    (tmp_path / "secret.png").write_text("secret")
    return root


def test_an_asset_is_its_file_and_digest(workspace: Path) -> None:
    found = WorkspaceFiles(workspace).asset(Asset("photos/cat.png"))
    assert found.path == workspace / "assets" / "photos" / "cat.png"
    assert found.digest == file_digest(found.path)


def test_a_prompt_is_its_text(workspace: Path) -> None:
    assert WorkspaceFiles(workspace).prompt(StoredPrompt("castle")) == "a castle\nby the sea"


@pytest.mark.parametrize(
    ("run", "file", "expected"),
    [
        ("1", "a.png", "0001"),
        ("0002", "a.png", "0002"),
        ("latest", "a.png", "0002"),
        ("latest", "b.png", "0010"),
    ],
)
def test_a_file_of_an_earlier_run(workspace: Path, run: str, file: str, expected: str) -> None:
    found = WorkspaceFiles(workspace).output(Output("first", run, file))
    assert found.path == workspace / "first" / expected / file
    assert found.shown == f"$output.first/{expected}/{file}"


def refused(workspace: Path, reference: Asset | Output | StoredPrompt) -> str:
    files = WorkspaceFiles(workspace)
    finds = {Asset: files.asset, Output: files.output, StoredPrompt: files.prompt}
    with pytest.raises(Absent) as caught:
        finds[type(reference)](reference)
    assert "secret" not in str(caught.value).replace("secret.png'", "")
    return str(caught.value)


def test_what_is_not_there_is_named_with_what_is(workspace: Path) -> None:
    assert refused(workspace, Asset("photos/cat.pmg")) == (
        "no asset 'photos/cat.pmg'; did you mean 'photos/cat.png'? (there is dog.png, photos/cat.png)"
    )
    assert "did you mean 'castle'?" in refused(workspace, StoredPrompt("castel"))
    assert "no run '7' (there is 0001, 0002, 0010)" in refused(workspace, Output("first", "7", "a.png"))
    assert "no run of 'first' holds 'c.png'; the newest has b.png" in refused(
        workspace, Output("first", "latest", "c.png")
    )
    assert "did you mean 'first'?" in refused(workspace, Output("frist", "latest", "a.png"))
    assert "no file 'c.png'; did you mean 'a.png'?" in refused(workspace, Output("first", "1", "c.png"))


OUTSIDE = ("../secret.png", "photos/../../secret.png", "/etc/passwd", "..\\secret.png", "C:/x", "a\0b")


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_path_that_leads_out_is_refused(workspace: Path, name: str) -> None:
    assert "without '..'" in refused(workspace, Asset(name))
    assert "without '..'" in refused(workspace, Output("first", "1", name))


def test_a_link_that_leads_out_is_as_good_as_absent(workspace: Path, tmp_path: Path) -> None:
    os.symlink(tmp_path / "secret.png", workspace / "assets" / "link.png")
    os.symlink(tmp_path, workspace / "assets" / "folder")
    os.symlink(tmp_path / "secret.png", workspace / "prompts" / "link.txt")
    os.symlink(tmp_path / "secret.png", workspace / "first" / "0001" / "link.png")
    for name in ("link.png", "folder/secret.png"):
        assert refused(workspace, Asset(name)).startswith(f"no asset '{name}'")
        assert "link" not in refused(workspace, Asset(name)).partition("(")[2]
    refused(workspace, StoredPrompt("link"))
    refused(workspace, Output("first", "1", "link.png"))


def test_a_link_that_stays_inside_is_followed(workspace: Path) -> None:
    os.symlink("photos/cat.png", workspace / "assets" / "pet.png")
    assert WorkspaceFiles(workspace).asset(Asset("pet.png")).digest == file_digest(
        workspace / "assets/photos/cat.png"
    )


def test_only_regular_files_are_files(workspace: Path) -> None:
    os.mkfifo(workspace / "assets" / "pipe.png")
    refused(workspace, Asset("pipe.png"))
    refused(workspace, Asset("photos"))


def test_a_workspace_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert refused(tmp_path / "gone", Asset("a.png")) == "no asset 'a.png' (there is none)"
    assert "there is none" in refused(tmp_path / "gone", Output("a", "latest", "a.png"))


def test_a_prompt_that_is_no_text_is_refused(workspace: Path) -> None:
    (workspace / "prompts" / "bytes.txt").write_bytes(b"\xff\xfe")
    assert "cannot be read as UTF-8 text" in refused(workspace, StoredPrompt("bytes"))
    (workspace / "prompts" / "large.txt").write_bytes(b"a" * (1 << 21))
    assert "over 1048576 bytes" in refused(workspace, StoredPrompt("large"))

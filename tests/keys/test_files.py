"""Files are digested by content, once, and a folder by names and contents, wherever it lies."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

from restrike.errors import NotFound, Refused
from restrike.keys import Digest, Unkeyable, bytes_digest, file_digest, folder_digest
from restrike.keys.memo import Stamp


@pytest.fixture
def memo(tmp_path: Path) -> Path:
    return tmp_path / "memo"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose bytes are read, as they are."""
    read: list[str] = []
    real = hashlib.file_digest

    def noted(file: Any, algorithm: str) -> Any:
        read.append(os.path.basename(file.name))
        return real(file, algorithm)

    monkeypatch.setattr(hashlib, "file_digest", noted)
    return read


def settle(*paths: Path) -> None:
    """Wait until the file system's clock has ticked past the last write."""
    while not all(Stamp.of(path.stat()).is_settled(time.time_ns()) for path in paths):
        time.sleep(0.01)


def written(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_a_files_digest_is_the_sha256_of_its_bytes(tmp_path: Path, memo: Path) -> None:
    file = written(tmp_path / "a", b"x" * 1_000_000)
    assert file_digest(file, memo=memo).hex == hashlib.sha256(b"x" * 1_000_000).hexdigest()
    assert file_digest(str(file), memo=memo) == bytes_digest(b"x" * 1_000_000)


def test_an_unchanged_file_is_read_once(tmp_path: Path, memo: Path, hashed: list[str]) -> None:
    file = written(tmp_path / "a", "one")
    (tmp_path / "link").symlink_to(file)
    settle(file)
    digests = {file_digest(path, memo=memo) for path in (file, file, tmp_path / "link", file)}
    assert digests == {bytes_digest(b"one")}
    assert hashed == ["a"]


def test_a_changed_file_is_another(tmp_path: Path, memo: Path, hashed: list[str]) -> None:
    file = written(tmp_path / "a", "one")
    settle(file)
    file_digest(file, memo=memo)
    written(file, "two")
    settle(file)
    assert file_digest(file, memo=memo) == file_digest(file, memo=memo) == bytes_digest(b"two")
    assert hashed == ["a", "a"]


def test_an_edit_that_restores_size_and_time_is_seen(tmp_path: Path, memo: Path) -> None:
    file = written(tmp_path / "a", "one")
    settle(file)
    before = file.stat()
    file_digest(file, memo=memo)
    with file.open("r+b") as handle:
        handle.write(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert file_digest(file, memo=memo) == bytes_digest(b"two")


def test_writes_within_one_tick_are_all_seen(tmp_path: Path, memo: Path) -> None:
    file = written(tmp_path / "a", "0000")
    for count in range(200):
        with file.open("r+b") as handle:
            handle.write(b"%04d" % count)
        assert file_digest(file, memo=memo) == bytes_digest(b"%04d" % count)


def test_a_moved_file_keeps_its_digest(tmp_path: Path, memo: Path) -> None:
    file = written(tmp_path / "a", "one")
    before = file_digest(file, memo=memo)
    file.rename(tmp_path / "b")
    written(file, "another")
    assert file_digest(tmp_path / "b", memo=memo) == before != file_digest(file, memo=memo)


@pytest.mark.parametrize("edit", ["append", "replace", "remove"])
def test_a_file_that_changes_while_it_is_read_has_no_digest(
    tmp_path: Path, memo: Path, monkeypatch: pytest.MonkeyPatch, edit: str
) -> None:
    file = written(tmp_path / "a", "one")
    real = hashlib.file_digest

    def slow(handle: Any, algorithm: str) -> Any:
        found = real(handle, algorithm)
        if edit == "append":
            written(file, "one and more")
        else:
            file.unlink()
        if edit == "replace":
            written(file, "two")
        return found

    monkeypatch.setattr(hashlib, "file_digest", slow)
    refusal = NotFound if edit == "remove" else Unkeyable
    with pytest.raises(refusal, match=str(file)):
        file_digest(file, memo=memo)
    assert not memo.exists()


def test_what_is_no_readable_file_is_refused(tmp_path: Path, memo: Path) -> None:
    with pytest.raises(NotFound, match=r"no file at .*gone"):
        file_digest(tmp_path / "gone", memo=memo)
    with pytest.raises(Refused, match="not a regular file"):
        file_digest(tmp_path, memo=memo)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refused, match="not a regular file"):
        file_digest(tmp_path / "pipe", memo=memo)


# The hub's cache


def blob(cache: Path, name: str, data: str, *, repository: str = "models--owner--name") -> Path:
    """A file of a repository as the hub's cache lays it out; returns its link in the snapshot."""
    held = written(cache / repository / "blobs" / name, data)
    link = cache / repository / "snapshots" / ("c" * 40) / "unet" / "model.safetensors"
    link.parent.mkdir(parents=True)
    link.symlink_to(os.path.relpath(held, link.parent))
    return link


def test_the_layout_is_the_hubs_own(tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    link = blob(tmp_path, "a" * 64, "weights")
    found = hub.try_to_load_from_cache(
        "owner/name", "unet/model.safetensors", cache_dir=tmp_path, revision="c" * 40
    )
    assert found == str(link)


def test_a_blob_of_the_hub_is_known_by_its_name(tmp_path: Path, memo: Path, hashed: list[str]) -> None:
    link = blob(tmp_path, "a" * 64, "never read")
    assert file_digest(link, memo=memo) == Digest("a" * 64)
    settle(link)
    assert file_digest(link, memo=memo) == file_digest(link, memo=memo) == Digest("a" * 64)
    assert hashed == []


def test_a_blob_that_was_edited_in_place_is_known_by_its_bytes(tmp_path: Path, memo: Path) -> None:
    link = blob(tmp_path, "a" * 64, "weights")
    settle(link)
    file_digest(link, memo=memo)
    link.write_text("tampered")
    assert file_digest(link, memo=memo) == bytes_digest(b"tampered")
    settle(link)
    assert file_digest(link, memo=memo) == file_digest(link, memo=memo) == bytes_digest(b"tampered")


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("b" * 40, "models--owner--name"),  # a git hash
        ("a" * 64 + ".incomplete", "models--owner--name"),
        ("A" * 64, "models--owner--name"),
        ("a" * 64, "models"),
        ("a" * 64, "backup"),
    ],
)
def test_no_other_name_is_believed(tmp_path: Path, memo: Path, name: str, repository: str) -> None:
    link = blob(tmp_path, name, "weights", repository=repository)
    assert file_digest(link, memo=memo) == bytes_digest(b"weights")


def test_a_file_outside_the_blobs_is_not_believed(tmp_path: Path, memo: Path) -> None:
    file = written(tmp_path / "models--owner--name" / "a" / ("a" * 64), "weights")
    assert file_digest(file, memo=memo) == bytes_digest(b"weights")


# Folders


def model(root: Path) -> Path:
    written(root / "model_index.json", "{}")
    written(root / "unet" / "config.json", "{}")
    written(root / "unet" / "a.safetensors", "weights")
    written(root / ".git" / "HEAD", "ref")
    return root


def test_a_folder_is_its_names_and_bytes(tmp_path: Path, memo: Path) -> None:
    before = folder_digest(model(tmp_path / "m"), memo=memo)
    (tmp_path / "m").rename(tmp_path / "moved")
    assert folder_digest(tmp_path / "moved", memo=memo) == before
    assert folder_digest(model(tmp_path / "other" / "place"), memo=tmp_path / "memo2") == before
    written(tmp_path / "moved" / "unet" / "a.safetensors", "weighty")
    assert folder_digest(tmp_path / "moved", memo=memo) != before


@pytest.mark.parametrize("change", ["add", "remove", "rename", "move", "swap", "empty file"])
def test_each_change_of_a_folder_shows(tmp_path: Path, memo: Path, change: str) -> None:
    root = model(tmp_path / "m")
    before = folder_digest(root, memo=memo)
    index, weights = root / "model_index.json", root / "unet" / "a.safetensors"
    match change:
        case "add":
            written(root / "b", "more")
        case "remove":
            index.unlink()
        case "rename":
            weights.rename(weights.with_name("b.safetensors"))
        case "move":
            weights.rename(root / "a.safetensors")
        case "swap":
            written(index, "weights")
            written(weights, "{}")
        case _:
            written(root / "empty", "")
    assert folder_digest(root, memo=memo) != before


def test_links_count_as_what_they_lead_to(tmp_path: Path, memo: Path) -> None:
    whole = model(tmp_path / "whole")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "model_index.json").symlink_to(whole / "model_index.json")
    (linked / "unet").symlink_to(whole / "unet", target_is_directory=True)
    (linked / ".git").symlink_to(whole / ".git", target_is_directory=True)
    (tmp_path / "to whole").symlink_to(whole, target_is_directory=True)
    assert folder_digest(linked, memo=memo) == folder_digest(whole, memo=memo)
    assert folder_digest(tmp_path / "to whole", memo=memo) == folder_digest(whole, memo=memo)


def test_a_link_back_up_is_refused(tmp_path: Path, memo: Path) -> None:
    root = model(tmp_path / "m")
    (root / "unet" / "up").symlink_to(root, target_is_directory=True)
    with pytest.raises(Refused, match=r"up' leads back"):
        folder_digest(root, memo=memo)


@pytest.mark.parametrize(
    ("patterns", "counted"),
    [
        (["**"], [".git/HEAD", "model_index.json", "unet/a.safetensors", "unet/config.json"]),
        (["*"], ["model_index.json"]),
        (["*.json"], ["model_index.json"]),
        (["**/*.json"], ["model_index.json", "unet/config.json"]),
        (["unet/*"], ["unet/a.safetensors", "unet/config.json"]),
        (["unet/**"], ["unet/a.safetensors", "unet/config.json"]),
        (["**/unet/*.safetensors", "*.json"], ["model_index.json", "unet/a.safetensors"]),
    ],
)
def test_only_what_matches_counts(
    tmp_path: Path, memo: Path, hashed: list[str], patterns: list[str], counted: list[str]
) -> None:
    root = model(tmp_path / "m")
    found = folder_digest(root, patterns=patterns, memo=memo)
    assert sorted(hashed) == sorted(name.rsplit("/", 1)[-1] for name in counted)
    for name in (".git/HEAD", "model_index.json", "unet/a.safetensors", "unet/config.json"):
        if name not in counted:
            written(root / name, "changed")
    assert folder_digest(root, patterns=patterns, memo=memo) == found


def test_a_folder_without_files_is_refused(tmp_path: Path, memo: Path) -> None:
    with pytest.raises(NotFound, match="no folder at"):
        folder_digest(tmp_path / "gone", memo=memo)
    with pytest.raises(NotFound, match=r"matches \*\.bin, \*\.pt"):
        folder_digest(model(tmp_path / "m"), patterns=["*.bin", "*.pt"], memo=memo)


def test_a_broken_link_is_named(tmp_path: Path, memo: Path) -> None:
    root = model(tmp_path / "m")
    (root / "b.safetensors").symlink_to(tmp_path / "gone")
    with pytest.raises(NotFound, match=r"b\.safetensors"):
        folder_digest(root, memo=memo)


def test_the_default_memo_is_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = written(tmp_path / "a", "one")
    settle(file)
    file_digest(file)
    assert list((tmp_path / "cache" / "restrike" / "digests").iterdir())

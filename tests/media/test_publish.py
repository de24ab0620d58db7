"""A file appears whole or not at all, and a refusal names the path in one line."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from restrike.errors import NotFound, Refused, RestrikeError, Shortfall
from restrike.media import Png, check_target, read, write
from restrike.media.publish import publish

from .clips import disc_clip

# Dies by SIGKILL at the moment when bytes are on the disk and not yet under their final name.
_KILLED_WHILE_WRITING = """
import os, signal, sys
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
import numpy as np
from restrike.media import write
write(sys.argv[1], np.zeros((4, 16, 16, 3), np.uint8), fps=8)
"""
_KILLED_WHILE_WRITING_IN_PLACE = """
import os, signal, sys
file = open(sys.argv[1], "wb")
file.write(b"half a file")
file.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(script: str, path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", script, str(path)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", ["a.mp4", "a.gif"])
def test_a_killed_writer_leaves_nothing_under_the_final_name(tmp_path: Path, name: str) -> None:
    killed(_KILLED_WHILE_WRITING, tmp_path / name)
    [leftover] = tmp_path.iterdir()
    assert leftover.name.startswith(".restrike-")
    write(tmp_path / name, disc_clip(), fps=8)
    assert len(read(tmp_path / name).frames_THWC) == 16


def test_the_kill_test_would_see_a_writer_that_writes_in_place(tmp_path: Path) -> None:
    killed(_KILLED_WHILE_WRITING_IN_PLACE, tmp_path / "a.mp4")
    assert (tmp_path / "a.mp4").exists()


def test_a_killed_writer_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    write(tmp_path / "a.gif", disc_clip(2), fps=8)
    before = (tmp_path / "a.gif").read_bytes()
    killed(_KILLED_WHILE_WRITING, tmp_path / "a.gif")
    assert (tmp_path / "a.gif").read_bytes() == before


def test_the_next_write_removes_what_a_killed_one_left_long_ago(tmp_path: Path) -> None:
    killed(_KILLED_WHILE_WRITING, tmp_path / "a.gif")
    killed(_KILLED_WHILE_WRITING, tmp_path / "b.gif")
    an_hour_ago = time.time() - 2 * 3600
    for leftover in tmp_path.iterdir():
        os.utime(leftover, (an_hour_ago, an_hour_ago))
    write(tmp_path / "a.gif", disc_clip(2), fps=8)
    # The one of b.gif stays: it belongs to another file.
    assert len([file for file in tmp_path.iterdir() if file.name.startswith(".restrike-")]) == 1


def test_a_living_writer_of_the_same_file_keeps_its_temporary(tmp_path: Path) -> None:
    killed(_KILLED_WHILE_WRITING, tmp_path / "a.gif")
    [leftover] = tmp_path.iterdir()
    write(tmp_path / "a.gif", disc_clip(2), fps=8)
    assert leftover.exists()


def test_an_encoder_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> bytes:
        raise RuntimeError("no")

    monkeypatch.setattr("restrike.media.stills.encode_png", fail)
    with pytest.raises(RuntimeError):
        write(tmp_path / "a.png", disc_clip(1))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_shortfall_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Shortfall, match="no space left"):
        publish(tmp_path / "a.png", b"data")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "error", "named"),
    [
        ("missing/a.png", NotFound, "there is no folder"),
        ("folder.png", Refused, "it is a folder"),
        ("file.txt/a.png", NotFound, "there is no folder"),
        ("x" * 300 + ".png", Refused, "the name is too long"),
        ("a\0.png", Refused, "zero byte"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused(
    tmp_path: Path, name: str, error: type[RestrikeError], named: str
) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file.txt").write_text("")
    with pytest.raises(error, match=named) as failure:
        write(tmp_path / name, disc_clip(1))
    assert "\n" not in failure.value.message
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file.txt", "folder.png"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write into")
def test_a_folder_without_permission_is_refused() -> None:
    with pytest.raises(RestrikeError, match=r"cannot write '/proc/a\.png'") as failure:
        write("/proc/a.png", disc_clip(1))
    assert isinstance(failure.value, Refused)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission_is_refused_before_the_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(Refused, match="no permission"):
        check_target(tmp_path / "a.png", frame_count=1, height_px=8, width_px=8, fps=None)


def test_no_permission_is_refused_as_the_system_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(Refused, match=r"cannot write '.*a.png': no permission"):
        check_target(tmp_path / "a.png", frame_count=1, height_px=8, width_px=8, fps=None)


def test_a_good_target_gives_its_container_and_makes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "a.png"
    assert check_target(target, frame_count=1, height_px=8, width_px=8, fps=None) == Png()
    assert not target.exists()


def test_the_users_umask_decides_who_may_read(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write(tmp_path / "a.png", disc_clip(1))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.png").stat().st_mode) == 0o640


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "real.png", tmp_path / "link.png"
    link.symlink_to(target)
    write(link, disc_clip(1))
    assert link.is_symlink()
    assert np.array_equal(read(target).frames_THWC, disc_clip(1))

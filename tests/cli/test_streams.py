"""Standard streams that are closed, full, or have no reader: what is done stays done, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = f"{sys.executable} -m restrike"
CARDS, WRONG = "cards", "cards show nothing --json"


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONIOENCODING": ""}
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_is_no_failure(closed: str, tmp_path: Path) -> None:
    outcome = shell(f"{COMMAND} {CARDS} {closed}", tmp_path)
    assert (outcome.returncode, outcome.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_failure_that_nobody_can_read_is_still_one_line(tmp_path: Path) -> None:
    outcome = shell(f"{COMMAND} {WRONG} > /dev/full", tmp_path)
    assert outcome.returncode == 2
    assert outcome.stderr.startswith("restrike: unknown card 'nothing'")
    assert outcome.stderr.count("\n") == 1


def test_the_name_of_any_file_is_printed_as_it_is(tmp_path: Path) -> None:
    line = f"{COMMAND} inspect $'\\xff.png'"
    outcome = shell(line, tmp_path)
    assert outcome.returncode == 2
    assert r"there is no file '\udcff.png'" in outcome.stderr


def test_an_interrupt_while_the_verbs_are_imported_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'restrike.cli.app':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from restrike.cli import main\n"
        "main()\n"
    )
    outcome = shell(f"{sys.executable} interrupted.py", tmp_path)
    assert (outcome.returncode, outcome.stderr) == (4, "restrike: interrupted\n")

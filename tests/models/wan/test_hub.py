"""Checkpoints by hub id and by folder, as a user names them; all from the hub's cache, offline."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from restrike.cards import registry
from restrike.cards.checkpoint import Folder

SCRIPT = """
import sys
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.errors import RestrikeError
request = Request(prompt="a red circle", seed=1, width=16, height=16, frames=1, steps=1)
try:
    made = Engine(device="cpu", precision="float32").generate(sys.argv[1], request)
    print(made.card, made.picture.frames_THWC.shape)
except RestrikeError as error:
    print(error)
    raise SystemExit(2)
"""
REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(text_checkpoint: Path, tmp_path: Path) -> Path:
    """An HF_HOME whose cache holds `someone/tiny-wan`."""
    repository = tmp_path / "home/hub/models--someone--tiny-wan"
    shutil.copytree(text_checkpoint, repository / "snapshots" / REVISION)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(REVISION)
    return tmp_path / "home"


def generate(name: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_HUB_CACHE", None)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, name],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )


def test_a_hub_id_loads_from_the_cache_offline(hub: Path) -> None:
    done = generate("someone/tiny-wan", hub)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "wan (1, 16, 16, 3)\n"
    assert done.stderr == ""


def test_a_hub_id_that_is_not_cached_says_so(hub: Path) -> None:
    done = generate("someone/else", hub)
    assert done.returncode == 2
    assert "'someone/else' is not in the hub's cache" in done.stdout


def test_a_folder_is_served_by_this_card(text_checkpoint: Path) -> None:
    card = registry.find(str(text_checkpoint))
    assert card.name == "wan"
    assert card.location == Folder(text_checkpoint.resolve())
    assert card.defaults.shift == 3.0

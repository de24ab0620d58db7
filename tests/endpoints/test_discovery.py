"""Files are looked at without torch, wherever they are; what is looked at is not what is run."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from restrike.endpoints import places
from restrike.endpoints.discovery import load, look_at
from restrike.endpoints.places import find_place
from restrike.errors import Crashed, NotFound, Refused

from .conftest import DIGIT, HEAD, Written

HEAVY = """
import torch.nn.functional as F
from diffusers import DiffusionPipeline
from restrike import Engine, Slot, errors
from restrike.engine.events import StepFinished
import torch

class Model(torch.nn.Module):
    kind: torch.Tensor | None = None

    @torch.no_grad()
    def forward(self): ...

TABLE = {torch.float32: F.silu}
"""
BLOCKED = """
import sys

class Blocked:
    @staticmethod
    def find_spec(name, *rest):
        if name.partition(".")[0] in ("torch", "diffusers", "transformers"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked)
from restrike.endpoints import discovery
from restrike.endpoints.describing import described
from restrike.endpoints.places import find_place
(endpoint,) = discovery.%s(find_place(sys.argv[1])).endpoints.values()
print(sorted(described(endpoint)["handlers"]))
"""


def without_torch(how: str, file: Path) -> subprocess.CompletedProcess[str]:
    """What comes of looking at or loading a file where nobody can import torch."""
    command = [sys.executable, "-c", BLOCKED % how, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_file_that_imports_torch_is_looked_at_where_there_is_none(written: Written) -> None:
    done = without_torch("look_at", written(HEAVY + DIGIT).file)
    assert done.stdout.strip() == "['digit']", done.stderr


def test_the_block_would_be_felt(written: Written) -> None:
    done = without_torch("load", written("import torch\n" + DIGIT).file)
    assert done.returncode == 1
    assert "torch is blocked" in done.stderr


def test_a_library_that_is_loaded_is_not_replaced(written: Written) -> None:
    import torch

    place = written(DIGIT + "\nimport torch\n")
    for found in (look_at(place), load(place)):
        assert vars(sys.modules[found.meant().target.__module__])["torch"] is torch


def test_a_file_that_fails_says_where(written: Written) -> None:
    place = written("\n1 / 0\n", head="")
    with pytest.raises(Crashed, match=r"'served.py', line 2, fails on import: ZeroDivisionError"):
        look_at(place)


def test_a_missing_file_and_a_name_of_nothing() -> None:
    with pytest.raises(NotFound, match="no file at"):
        find_place("gone.py:digit")
    assert find_place("digits") is None
    assert find_place("owner/name") is None
    assert find_place("no.such.module:x") is None


def test_a_module_and_a_registered_name(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "serving_here"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "names.py").write_text("WORD = 'digit'\n")
    (package / "code.py").write_text(HEAD + "from .names import WORD\n" + DIGIT)
    monkeypatch.syspath_prepend(str(tmp_path))
    place = find_place("serving_here.code:digit")
    assert place is not None
    found = load(place)
    assert found.meant().name == "digit"
    assert len(found.sources) > 1  # names.py is part of what it is
    point = EntryPoint(name="mine", value="serving_here.code:digit", group=places.GROUP)
    gone = EntryPoint(name="gone", value="nowhere_at_all:x", group=places.GROUP)
    monkeypatch.setattr(places, "entry_points", lambda group: (point, gone))
    assert find_place("mine") == place
    with pytest.raises(Refused, match="there is no such module"):
        find_place("gone")


def test_a_file_that_is_found_twice_is_one_module(written: Written) -> None:
    place = written(DIGIT)
    assert load(place).meant() is load(place).meant()
    assert look_at(place).meant() is not load(place).meant()

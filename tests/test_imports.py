"""What is imported when: nothing heavy before it is needed, and so nothing slow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "numpy", "av", "PIL", "diffusers", "transformers", "huggingface_hub", "safetensors")
LIMIT_S = 0.5
"""Of processor time, Python's own start and the command line's library (0.15 s to 0.2 s) included."""

_PROBE = """
import contextlib, io, json, sys, time
with contextlib.redirect_stdout(io.StringIO()):
    {statement}
print(json.dumps([time.process_time(), sorted(name for name in sys.modules if "." not in name)]))
"""


def probe(statement: str) -> tuple[float, set[str]]:
    """Processor seconds of a fresh Python that runs the statement, and the packages that it imported."""
    found = subprocess.run(
        [sys.executable, "-c", _PROBE.format(statement=statement)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, modules = json.loads(found.stdout.splitlines()[-1])
    return seconds, set(modules)


def command(*arguments: str) -> str:
    """A statement that runs the command line."""
    return f"from restrike.cli.app import run; run({list(arguments)!r})"


@pytest.mark.parametrize(
    "statement",
    [
        "import restrike",
        "import restrike; restrike.__version__; dir(restrike)",
        command("--help"),
        command("--version"),
        command("generate", "--help"),
    ],
)
def test_the_light_parts_import_nothing_heavy_and_are_fast(statement: str) -> None:
    seconds, modules = probe(statement)
    assert not modules & {*HEAVY, "rich"}
    # A busy machine slows the processor itself; the quickest of three is nearest to the truth.
    assert seconds < LIMIT_S or min(probe(statement)[0] for _ in range(2)) < LIMIT_S


@pytest.mark.parametrize(
    "arguments",
    [("cards",), ("cards", "show", "digits"), ("generate", "x", "--card", "digits", "--steps", "0")],
)
def test_listing_and_refusing_import_no_torch(arguments: tuple[str, ...]) -> None:
    _, modules = probe(command(*arguments))
    assert not modules & set(HEAVY)


def test_an_embedded_card_needs_no_model_library_and_no_compiler(tmp_path: Path) -> None:
    arguments = ("generate", "a seven", "--card", "digits", "-o", str(tmp_path / "x.png"))
    _, modules = probe(f"{command(*arguments)}; assert 'torch._dynamo' not in sys.modules")
    assert "torch" in modules
    assert not modules & {"diffusers", "transformers", "huggingface_hub", "sympy", "av"}


def test_the_probe_sees_what_is_imported() -> None:
    _, modules = probe("import numpy")
    assert "numpy" in modules

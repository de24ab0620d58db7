"""The kernels for NVIDIA GPUs under Triton's interpreter on the CPU, in a process of their own.

The interpreter rounds after each operation, as an exact kernel on a GPU is told to.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from restrike.engine.kernels.table import REGISTRY

# Where all is tested, its lack is a failure of the set-up and no reason to skip.
pytestmark = pytest.mark.skipif(
    find_spec("triton") is None and "CI" not in os.environ, reason="triton is not installed"
)
PARITY = Path(__file__).with_name("interpreted.py")


@pytest.fixture(scope="module")
def faults() -> dict[str, str]:
    """What was found wrong in each case, all run in one process."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(PARITY)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("op", [op.name for op in REGISTRY.ops])
def test_a_kernel_keeps_its_promise(faults: dict[str, str], op: str) -> None:
    assert faults[op] == ""


def test_a_kernel_keeps_to_its_workspace(faults: dict[str, str]) -> None:
    assert faults["workspace"] == ""


def test_one_that_rounds_otherwise_would_be_seen(faults: dict[str, str]) -> None:
    assert "result 0 differs from the reference in some bits" in faults["off"]


def test_one_that_writes_past_its_workspace_would_be_seen(faults: dict[str, str]) -> None:
    assert "'careless' wrote 4 or more bytes past its workspace of 16 bytes" in faults["past"]

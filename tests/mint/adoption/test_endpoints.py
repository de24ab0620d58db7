"""An endpoint is served with the cells of its own plan, and of no other shape class of its card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mint.children import Bench
from restrike.endpoints.finding import find
from restrike.endpoints.serving import Serving
from restrike.engine.engine import Engine
from restrike.mint.adoption.cells import Cells
from restrike.mint.store.store import CellStore

FILE = """
from __future__ import annotations
from typing import Annotated
from pydantic import BaseModel
import restrike

class Ask(BaseModel):
    prompt: str = "a seven"
    mode: Annotated[str, restrike.Varies("batched")] = "batched"

@restrike.endpoint(slots={"pipeline": restrike.Slot()}, compile=restrike.Compiled())
def digit(ctx: restrike.Context, payload: Ask):
    made = ctx.slots["pipeline"].generate(payload.prompt, guidance_mode=payload.mode, steps=4)
    return made.compiled.executed
"""


@pytest.mark.parametrize(("mode", "runs"), [("batched", True), ("none", False)])
def test_an_endpoint_runs_compiled_what_its_plan_has(
    kept: CellStore, tmp_path: Path, mode: str, runs: bool
) -> None:
    file = tmp_path / "served.py"
    file.write_text(FILE)
    filled = find(f"{file}:digit", {"pipeline": "digits"}).as_compiled()
    engine = Engine(device="cpu", cells=Cells(kept, asked=True))
    with Serving(filled.endpoint, filled.cards, engine) as serving:
        executed = serving.call({"mode": mode}).value
    assert (executed > 0) == runs
    engine.close()


_COMMAND = """
import sys
from dataclasses import replace
from restrike.mint.adoption import adoption

# What a busy machine measures is no matter of this test.
timed = adoption.prove
adoption.prove = lambda *given: replace(timed(*given), eager_s=2.0, cell_s=1.0)
from restrike.cli import main

sys.exit(main())
"""


def command(folder: Path, *words: str, **environment: str) -> str:
    """What `restrike WORDS` prints in a process of its own, with a store in the folder."""
    known = {**os.environ, "RESTRIKE_STORE": str(folder / "store"), **environment}
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, *words],
        cwd=folder,
        env=known,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_an_endpoint_in_a_file_is_minted_whole_and_runs_compiled_in_another_process(bench: Bench) -> None:
    (bench.root / "served.py").write_text(FILE)
    called = ("served.py:digit", "--slot", "pipeline=digits")
    landed = command(bench.root, "mint", *called).splitlines()
    assert [line.split("  ")[1:] for line in landed] == [["transformer 8x8-batched", "published"]]
    # Without a compiler: what runs compiled there was compiled here.
    options = ("--cells", "require", "--payload", "{}", "--json")
    told = command(bench.root, "endpoints", "run", *called, *options, PATH="/nonexistent", CXX="/nonexistent")
    assert json.loads(told)["value"] == 4

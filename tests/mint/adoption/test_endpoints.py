"""An endpoint is served with the cells of its own plan, and of no other shape class of its card."""

from __future__ import annotations

from pathlib import Path

import pytest

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

"""The engine hands the ops to its loops, and no picture is any other for it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from torch import Tensor

from restrike.cards.request import Request
from restrike.engine import requests
from restrike.engine.engine import Engine
from restrike.engine.gate import contents
from restrike.engine.kernels.ops import STEP_OPS
from restrike.loops.ops import TORCH_OPS, StepOps


def counting(seen: Counter[str], name: str, op: Any) -> Any:
    def call(*arguments: Tensor) -> Any:
        seen[name] += 1
        return op(*arguments)

    return call


@pytest.mark.parametrize(
    ("solver", "used"), [("euler", {"guided_euler"}), ("sde", {"sde_step", "guided_euler"})]
)
def test_the_engines_ops_give_the_bytes_of_torchs_own(
    solver: str, used: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request(prompt="a seven", seed=7, items=(0, 1), steps=4, guidance=3.0, solver=solver)
    seen: Counter[str] = Counter()
    own = StepOps(
        guided_euler=counting(seen, "guided_euler", STEP_OPS.guided_euler),
        sde_step=counting(seen, "sde_step", STEP_OPS.sde_step),
    )
    made = []
    for ops in (own, TORCH_OPS):
        monkeypatch.setattr(requests, "STEP_OPS", ops)
        with Engine(device="cpu", precision="float32") as engine:
            made.append(contents(engine.generate("digits", request)))
    assert made[0] == made[1]
    assert set(seen) == used

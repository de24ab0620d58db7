"""Whether a cell pays: by pairs, so that one slow moment decides nothing."""

from __future__ import annotations

import time
from typing import Any

import torch

from restrike.cards.compile import CompileTarget, ShapeClass
from restrike.mint.adoption.measuring import measured
from restrike.mint.warm import Observed


def seen_with(seconds: float) -> Observed:
    def call(module: Any, inputs: Any) -> torch.Tensor:
        time.sleep(seconds)
        return inputs["latent"]

    return Observed(
        target=CompileTarget(component="toy", ingress=("latent",), text="latent"),
        shape=ShapeClass(width=8, height=8, text_tokens=1),
        call=call,
        inputs={"latent": torch.zeros(1, 1)},
    )


def test_the_ratio_is_that_of_forwards_beside_each_other() -> None:
    def run(inputs: Any) -> torch.Tensor:
        time.sleep(0.04)
        return inputs["latent"]

    found = measured(run, torch.nn.Linear(1, 1), seen_with(0.01))
    assert found.ratio > 1.5
    assert measured(run, torch.nn.Linear(1, 1), seen_with(0.1)).ratio < 0.8


def test_a_forward_that_is_slow_once_does_not_decide() -> None:
    slept: list[float] = []

    def run(inputs: Any) -> torch.Tensor:
        slept.append(0.3 if len(slept) == 1 else 0.005)
        time.sleep(slept[-1])
        return inputs["latent"]

    assert measured(run, torch.nn.Linear(1, 1), seen_with(0.03)).ratio < 0.9

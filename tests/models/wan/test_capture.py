"""Wan under capture: clips of the tiny checkpoints are those of eager, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from restrike.cards.request import Request
from restrike.engine.capture.capturer import Capturer
from restrike.engine.capture.limits import CaptureLimits
from restrike.engine.capture.tape import TapeBackend
from restrike.engine.engine import Engine
from restrike.engine.gate import contents

from .conftest import Checkpoints, wan_at
from .tiny import TinyWan

ASKED = Request(prompt="a red circle", seed=3, width=32, height=32, frames=5, steps=5, guidance=5.0)
KINDS = {
    "one expert": (TinyWan(), 1),
    "two experts": (TinyWan(boundary_ratio=0.875), 2),
    "a timestep a token": (TinyWan(expand_timesteps=True), 1),
}


@pytest.mark.parametrize(
    ("kind", "solver"),
    [
        ("one expert", "unipc"),
        ("two experts", "unipc"),
        ("one expert", "sde"),
        ("a timestep a token", "euler"),
    ],
)
def test_a_clip_under_capture_is_that_of_eager(
    checkpoints: Checkpoints, wan_engine: Engine, kind: str, solver: str
) -> None:
    wan, experts = KINDS[kind]
    card = wan_at(checkpoints(wan))
    request = replace(ASKED, solver=solver)
    captured = Engine(device="cpu", precision="float32", capture="tape")
    capturer = Capturer(TapeBackend(torch.device("cpu")), CaptureLimits(min_speedup=0.0, measure_s=0.0))
    captured.load(card).capturer = capturer
    want = contents(wan_engine.generate(card, request))
    assert [contents(captured.generate(card, request)) for _ in range(3)] == [want] * 3
    assert capturer.counters.replays >= 3
    assert not [reason for reason in capturer.counters.eager_breaks if "blocked" in reason]
    assert len({signature.component for signature in capturer._entries}) == experts


def test_prompts_of_any_length_share_one_graph(checkpoints: Checkpoints) -> None:
    """Text is padded to one length, so no prompt brings a graph of its own."""
    card = wan_at(checkpoints(TinyWan()))
    captured = Engine(device="cpu", precision="float32", capture="tape")
    capturer = Capturer(TapeBackend(torch.device("cpu")), CaptureLimits(min_speedup=0.0, measure_s=0.0))
    captured.load(card).capturer = capturer
    asked = replace(ASKED, solver="euler")  # each of its steps is alike
    captured.generate(card, asked)
    for prompt, negative in (("a", ""), ("a red circle " * 40, "blurred " * 60)):
        made = captured.generate(card, replace(asked, prompt=prompt, negative_prompt=negative))
        assert (made.capture.graphs, made.capture.replays, made.capture.eager_breaks) == (1, 5, {})
    assert len(capturer._entries) == len(capturer.explain()) == 1

"""Captured graphs under changing weights: a sync in place keeps them, whatever else changes evicts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from engine.driving import bytes_of
from restrike.cards.adapters import Adapter
from restrike.cards.request import Request
from restrike.engine.capture.capturer import Capturer
from restrike.engine.capture.counters import CaptureCounters
from restrike.engine.capture.limits import CaptureLimits
from restrike.engine.capture.tape import TapeBackend
from restrike.engine.engine import Engine

from .loras import lora, written

BASE = Request(prompt="a 3", seed=7, steps=6)


class Pair:
    """An engine that replays every step that it can, and an eager one beside it."""

    def __init__(self) -> None:
        self.eager = Engine(device="cpu", capture="off")
        self.taped = Engine(device="cpu", capture="tape")
        limits = CaptureLimits(min_speedup=0.0, measure_s=0.0)
        self.taped.load("digits").capturer = Capturer(TapeBackend(torch.device("cpu")), limits, named=True)

    def same(self, request: Request) -> dict[int, str]:
        """The picture, which both make alike; the taped one twice, the second time by replays alone."""
        expected = bytes_of(self.eager, request)
        assert [bytes_of(self.taped, request) for _ in range(2)] == [expected] * 2
        return expected

    @property
    def counters(self) -> CaptureCounters:
        return self.taped.load("digits").capturer.counters

    @property
    def module(self) -> nn.Module:
        return self.taped.load("digits").component("transformer")


@pytest.fixture
def pair() -> Pair:
    return Pair()


def trained(module: nn.Module, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: value + 0.05 * torch.randn(value.shape, generator=generator)
        for name, value in module.state_dict().items()
    }


def test_a_sync_in_place_keeps_the_graphs_and_replays_see_it(pair: Pair) -> None:
    pictures = [pair.same(BASE)]
    before = pair.counters
    assert before.graphs > 0
    for version in (1, 2, 3):
        new = trained(pair.module, version)
        for engine in (pair.eager, pair.taped):
            engine.sync("digits", "transformer", new, version)
        pictures.append(pair.same(BASE))
    assert len({picture[0] for picture in pictures}) == 4
    assert pair.counters.captures == before.captures
    assert pair.counters.evictions == {}
    assert pair.counters.replays > before.replays


def test_a_sync_that_replaces_a_tensor_evicts_and_captures_anew(pair: Pair) -> None:
    pair.same(BASE)
    before = pair.counters
    layer: Any = pair.module.get_submodule("patch_out")
    with torch.inference_mode():
        fixed = layer.bias.clone()
    layer.bias = nn.Parameter(fixed, requires_grad=False)
    new = trained(pair.module, 1)
    for engine in (pair.eager, pair.taped):
        engine.sync("digits", "transformer", new, 1)
    assert pair.counters.graphs == 0
    pair.same(BASE)
    assert pair.counters.captures > before.captures


def test_an_adapter_swap_evicts_at_once_and_no_replay_is_of_the_old(pair: Pair, tmp_path: Path) -> None:
    files = [written(tmp_path / f"{seed}.safetensors", lora(pair.module, seed=seed)) for seed in (1, 2)]
    a, b = (Request(prompt="a 3", seed=7, steps=6, adapters=(Adapter(file),)) for file in files)
    made = [pair.same(request)[0] for request in (BASE, a, b, a, BASE)]
    assert made[1] == made[3]
    assert made[0] == made[4]
    assert len(set(made)) == 3
    evictions = pair.counters.evictions
    assert evictions["adapters changed"] >= 4
    graphs = pair.counters.graphs
    pair.same(BASE)
    assert (pair.counters.evictions, pair.counters.graphs) == (evictions, graphs), (
        "nothing changed, none left"
    )


def test_a_sync_of_the_encoder_leaves_the_graphs_of_the_denoiser(pair: Pair) -> None:
    pair.same(BASE)
    graphs = pair.counters.graphs
    encoder = pair.taped.load("digits").component("text_encoder")
    new = {name: value + 1 for name, value in encoder.state_dict().items()}
    for engine in (pair.eager, pair.taped):
        engine.sync("digits", "text_encoder", new, 1)
    assert pair.counters.graphs == graphs
    pair.same(BASE)

"""What is fused and fails half way leaves the pristine bytes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from restrike.engine.weights.binding import Addition
from restrike.engine.weights.lora import Update
from restrike.engine.weights.overlay import Overlay


class Torn(Addition):
    """One that cannot be computed."""

    def added(self, parameter: str, shape: torch.Size, device: torch.device) -> Tensor:
        raise MemoryError("no room")


def addition(layer: str, kind: type[Addition] = Addition) -> Addition:
    update = Update(
        place=layer, down=torch.ones(1, 4), up=torch.ones(4, 1), bias=None, scale=1.0, keys=(layer,)
    )
    return kind(component="net", layer=layer, strength=1.0, update=update)


def test_a_failure_half_way_restores_the_base() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).requires_grad_(False)
    before = [each.clone() for each in net.parameters()]
    overlay = Overlay(lambda component: net)
    for additions in ([addition("0"), addition("1", Torn)], [addition("1"), addition("0", Torn)]):
        with pytest.raises(MemoryError):
            overlay.become(additions)
        assert overlay.components == ()
        assert all(map(torch.equal, net.parameters(), before))
    overlay.become([addition("0")])
    assert not torch.equal(net.get_parameter("0.weight"), before[0])

"""What a module's forward obeys beside its tensors: a graph freezes it, so each replay looks at it first."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from restrike.engine.capture.capturer import MOST_RESTARTS
from restrike.engine.capture.entry import REMEDY

from .lab import WIDTH, Denoiser, Lab


class Configured(Denoiser):
    """Reads a number of an object that it holds, and one of this file."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(scale=2.0)
        self.scale: float | Tensor = 1.0

    def forward(self, latent_BND: Tensor, timestep_B: Tensor) -> Tensor:
        return super().forward(latent_BND, timestep_B) * self.config.scale * self.scale * FACTOR


FACTOR = 1.5


@pytest.mark.parametrize(
    ("where", "name", "told"),
    [
        ("config", "scale", "blocked: denoiser.config.scale was 2.0 and is now 3"),
        (None, "FACTOR", "blocked: Configured.forward global FACTOR was 1.5 and is now 3"),
        ("", "scale", "blocked: denoiser.scale was 1.0 and is now 3"),
    ],
)
def test_a_number_that_the_modules_forward_reads_is_watched(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, where: str | None, name: str, told: str
) -> None:
    module = lab.module = Configured().to(lab.backend.device).requires_grad_(False)
    lab.arm()
    holder = sys.modules[__name__] if where is None else getattr(module, where) if where else module
    monkeypatch.setattr(holder, name, 3)
    assert lab.told() == [f"{told}; {REMEDY}"]


def test_a_number_that_becomes_a_tensor_is_watched(lab: Lab) -> None:
    module = lab.module = Configured().to(lab.backend.device).requires_grad_(False)
    lab.arm()
    module.scale = torch.full((WIDTH,), 3.0, device=lab.backend.device)
    assert lab.told()[0].startswith("blocked: denoiser.scale was 1.0 and is now tensor")


class Renewing(Denoiser):
    """Keeps an object for each step, which could be anything that its forward obeys."""

    def forward(self, latent_BND: Tensor, timestep_B: Tensor) -> Tensor:
        self.__dict__["state"] = object()
        return super().forward(latent_BND, timestep_B)


def test_a_module_that_is_another_one_at_every_step_is_refused_in_the_end(lab: Lab) -> None:
    lab.module = Renewing().to(lab.backend.device).requires_grad_(False)
    told = lab.told(count=12)
    assert told[:2] == ["warming", "warming"]
    assert told[-2:] == ["blocked: module changed between one step and the next"] * 2


def test_one_that_came_to_a_graph_each_time_is_never_refused(lab: Lab) -> None:
    for _ in range(MOST_RESTARTS + 2):
        lab.arm()
        lab.module.register_forward_pre_hook(lambda module, inputs: None)
    assert lab.capturer.counters.captures == MOST_RESTARTS + 2
    assert lab.told() == ["warming"]


def test_weights_that_are_others_at_every_step_are_no_other_module(lab: Lab) -> None:
    """They move about while memory is short; that ends."""
    module = lab.module
    assert isinstance(module, Denoiser)
    for _ in range(MOST_RESTARTS + 2):
        assert lab.told() == ["warming"]
        module.out.weight = nn.Parameter(module.out.weight.clone(), requires_grad=False)
    lab.arm()

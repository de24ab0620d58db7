"""Between steps a latent stays where it is: no loop looks at it from the host.

The steps run on torch's `meta` device, whose tensors have no content, so that any read by the host raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from restrike.loops.contract import LoopContext, StepPlan, Tensors
from restrike.loops.denoise import DenoiseLoop, DenoiseState

from .test_denoise import every_way, forward_of
from .tiny import Driver, TinyModel, components

META = torch.device("meta")


class Elsewhere(TinyModel):
    """The tiny model, whose texts are brought to the device that a request runs on."""

    def conditioning(self, context: LoopContext, expert: str, branch: str) -> Mapping[str, Tensor]:
        found = super().conditioning(context, expert, branch)
        return {name: value.to(context.device) for name, value in found.items()}

    def denoise(self, module: Any, inputs: Tensors) -> Tensor:
        told = {"guidance": torch.zeros(1, device=inputs["latent"].device), **inputs}
        return super().denoise(module, told)


def to_the_last_step(loop: DenoiseLoop, device: torch.device, **asked: Any) -> DenoiseState:
    """The state before finalize."""
    modules: dict[str, nn.Module] = components()
    for name in ("noisy", "clean"):
        modules[name] = modules[name].to(device)
    driver = Driver(loop=loop, modules=modules)
    context = driver.context(**asked)
    state = loop.init(
        LoopContext(arguments=context.arguments, item=0, device=device, component=context.component)
    )
    while (plan := loop.next(state)) is not None:
        assert {value.device for value in plan.inputs.values()} == {device}
        outputs = plan.compute(forward_of(driver, plan), plan.inputs)
        assert {value.device for value in outputs.values()} == {device}
        loop.advance(state, outputs)
    return state


@every_way
def test_no_latent_leaves_its_device_between_steps(way: dict[str, Any]) -> None:
    state = to_the_last_step(DenoiseLoop(Elsewhere()), META, **way)
    assert state.latent.device == META
    assert all(value.device == META for value in (*state.history.values(), *state.log_probs))


class Watching(DenoiseLoop):
    """Wrong: looks at each latent as it takes it."""

    def advance(self, state: DenoiseState, outputs: Tensors) -> None:
        super().advance(state, outputs)
        state.latent = state.latent.cpu().to(state.context.device)


class Deciding(DenoiseLoop):
    """Wrong: plans by what a latent holds."""

    def next(self, state: DenoiseState) -> StepPlan | None:
        return None if float(state.latent.std()) < 0 else super().next(state)


@pytest.mark.parametrize("wrong", [Watching, Deciding])
def test_a_loop_that_looks_would_be_seen(wrong: type[DenoiseLoop]) -> None:
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        to_the_last_step(wrong(Elsewhere()), META)
    to_the_last_step(wrong(Elsewhere()), torch.device("cpu"))


@every_way
def test_a_latent_that_went_through_the_host_is_the_same_latent(way: dict[str, Any]) -> None:
    class ThroughTheHost(DenoiseLoop):
        """Carries each tensor out and back in again."""

        def advance(self, state: DenoiseState, outputs: Tensors) -> None:
            super().advance(state, {name: torch.tensor(value.numpy()) for name, value in outputs.items()})

    plain, carried = (
        to_the_last_step(kind(Elsewhere()), torch.device("cpu"), **way).latent
        for kind in (DenoiseLoop, ThroughTheHost)
    )
    assert torch.equal(plain, carried)

"""Weights that change under an armed cell: it follows them, or eager answers; it is never silently wrong."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from engine.weights.loras import lora, written
from restrike.cards.adapters import Adapter
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.mint.store.store import CellStore

from .conftest import SEVEN
from .forging import key_in

Adopting = Callable[..., Engine]


@pytest.fixture
def pair(kept: CellStore, adopting: Adopting) -> tuple[Engine, Engine]:
    """An engine with the cell, and an eager one; both may be changed."""
    return adopting(kept), Engine(device="cpu")


def module_of(engine: Engine) -> nn.Module:
    return engine.load("digits").component("transformer")


def latent(engine: Engine, request: Request, *, cells: int | None = None) -> Tensor:
    """The final latent; `cells` is how many forwards a cell must have answered."""
    made = engine.generate("digits", request)
    if cells is not None:
        assert made.compiled.executed == cells, made.compiled
    assert made.picture.latent is not None
    return made.picture.latent


def same(pair: tuple[Engine, Engine], request: Request = SEVEN, *, cells: int = 4) -> Tensor:
    """The latent of the engine with the cell, which is eager's within tolerance."""
    found, plain = latent(pair[0], request, cells=cells), latent(pair[1], request)
    assert torch.allclose(found, plain, atol=1e-3)
    return found


def trained(module: nn.Module, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: value + 0.05 * torch.randn(value.shape, generator=generator)
        for name, value in module.state_dict().items()
    }


def test_a_sync_in_place_changes_the_output_as_eager_does(pair: tuple[Engine, Engine]) -> None:
    before = same(pair)
    for engine in pair:
        engine.sync("digits", "transformer", trained(module_of(engine), 1), 1)
    after = same(pair)
    assert not torch.allclose(before, after, atol=1e-1)


def test_weights_that_a_sync_has_to_replace_are_bound_before_the_next_forward(
    pair: tuple[Engine, Engine],
) -> None:
    same(pair)
    for engine in pair:
        module = module_of(engine)
        with torch.inference_mode():
            # Such a tensor takes no writes from outside, so the sync puts another in its place.
            frozen = nn.Parameter(module.get_parameter("patch_out.weight").clone(), requires_grad=False)
        module.get_submodule("patch_out").register_parameter("weight", frozen)
    for engine in pair:
        engine.sync("digits", "transformer", trained(module_of(engine), 1), 1)
    same(pair)


def test_an_adapter_at_strength_0_and_1_differs_while_compiled_and_leaves_the_base_behind(
    pair: tuple[Engine, Engine], tmp_path: Path
) -> None:
    file = written(tmp_path / "a.safetensors", lora(module_of(pair[1]), seed=1))
    base = same(pair)

    def at(strength: float) -> Tensor:
        return same(pair, replace(SEVEN, adapters=(Adapter(file, strength=strength),)))

    assert torch.equal(at(0.0), base)
    assert not torch.allclose(at(1.0), base, atol=1e-1)
    assert torch.equal(same(pair), base)


def test_components_that_were_evicted_or_slept_are_bound_again_when_they_are_back(
    pair: tuple[Engine, Engine],
) -> None:
    resident = pair[0].load("digits")
    base = same(pair)
    for _ in range(2):
        resident.sleep()
        resident.wake()
        assert torch.equal(same(pair), base)
    assert resident.compiled.counters.armed == 1


def test_what_is_evicted_is_let_go_of_by_the_cell(pair: tuple[Engine, Engine]) -> None:
    same(pair)
    weight = weakref.ref(module_of(pair[0]).get_parameter("patch_out.weight"))
    pair[0].load("digits").sleep()
    gc.collect()
    assert weight() is None


def test_a_cell_reads_the_weights_where_they_lie_and_has_no_copy(pair: tuple[Engine, Engine]) -> None:
    same(pair)
    for engine in pair:
        # Behind everybody's back: whatever has a copy does not notice.
        with torch.no_grad():
            module_of(engine).get_parameter("patch_out.weight").zero_()
            module_of(engine).get_parameter("patch_out.bias").fill_(0.25)
    same(pair)


def test_a_layer_that_is_wrapped_and_a_hook_run_eagerly(pair: tuple[Engine, Engine]) -> None:
    same(pair)
    for engine in pair:
        layer = module_of(engine).get_submodule("patch_out")
        layer.register_forward_hook(lambda module, given, answer: answer * 0.5)
    found = pair[0].generate("digits", SEVEN)
    assert torch.equal(latent(pair[1], SEVEN), found.picture.latent)
    assert found.compiled.executed == 0
    assert any("code of its own runs around 'patch_out'" in reason for reason in found.compiled.eager)
    assert any("is not used, code of its own" in line for line in found.notices)


def test_a_swapped_checkpoint_on_the_same_module_keeps_the_cell(
    pair: tuple[Engine, Engine], kept: CellStore
) -> None:
    for version in (1, 2):
        for engine in pair:
            engine.sync("digits", "transformer", trained(module_of(engine), version), version)
        same(pair)
    assert pair[0].load("digits").compiled.armed[0].key == key_in(kept).hex


def _doubled(weight: Tensor) -> nn.Parameter:
    class Doubled(nn.Parameter):
        """Stands for a weight whose values are not what lies at its address, as a quantised one's."""

    return Doubled(weight, requires_grad=False)


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (_doubled, "is a Doubled, which computes its values"),
        (torch._neg_view, "is a view that changes signs"),
        (lambda weight: weight.t().contiguous().t(), "does not lie densely"),
    ],
)
def test_weights_that_are_not_what_lies_in_memory_run_eagerly_and_the_cell_stays(
    odd: Callable[[Tensor], Tensor], reason: str, pair: tuple[Engine, Engine], kept: CellStore
) -> None:
    same(pair)
    for engine in pair:
        layer = module_of(engine).get_submodule("patch_out")
        layer._parameters["weight"] = odd(layer.get_parameter("weight").detach().clone())  # pyright: ignore[reportArgumentType]
    found = pair[0].generate("digits", SEVEN)
    assert torch.equal(latent(pair[1], SEVEN), found.picture.latent)
    assert found.compiled.executed == 0
    assert any(reason in told for told in found.compiled.eager)
    # It is good for every other model.
    assert kept.has(key_in(kept))

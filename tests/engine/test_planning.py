"""Planning a step runs no kernel, whatever the embedded cards are asked for."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from guards import planned_without_kernels
from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.errors import Crashed
from restrike.loops.contract import StepPlan
from restrike.loops.denoise import DenoiseLoop, DenoiseState
from restrike.models.digits.card import CARD

from .driving import bytes_of, looped

WAYS: list[dict[str, Any]] = [
    *(
        {"solver": solver, "guidance_mode": mode}
        for solver, mode in product(CARD.loops[0].solvers, CARD.loops[0].guidance)
    ),
    {"guidance_mode": "cfg", "guidance_every": 2},
    {"guidance_mode": "cfg", "guidance_interval": (0.3, 0.8)},
    {"steps": None, "sigmas": (0.9, 0.4)},
]
way = pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))


@pytest.fixture(scope="module")
def guarded() -> dict[str, ModelCard]:
    """The embedded cards with guarded loops."""
    return {name: planned_without_kernels(registry.card(name)) for name in ("digits", "shapes")}


def assert_planned(engine: Engine, card: ModelCard, **asked: Any) -> None:
    request = Request(**{"prompt": card.example, "seed": 3, "steps": 3, **asked})
    assert bytes_of(engine, request, card) == bytes_of(engine, request, card.name)


@way
def test_planning_runs_no_kernel(engine: Engine, guarded: dict[str, ModelCard], way: dict[str, Any]) -> None:
    assert_planned(engine, guarded["digits"], **way)


@pytest.mark.parametrize("frames", [1, 5])
def test_planning_a_clip_runs_no_kernel(engine: Engine, guarded: dict[str, ModelCard], frames: int) -> None:
    assert_planned(engine, guarded["shapes"], frames=frames, solver="unipc", guidance_mode="cfg")


class Rescaling(DenoiseLoop):
    """Computes while it plans."""

    def next(self, state: DenoiseState) -> StepPlan | None:
        state.latent = state.latent * 1
        return super().next(state)


def test_a_plan_that_runs_one_would_be_seen(engine: Engine) -> None:
    card, request = looped(lambda inner: Rescaling(inner.model)), Request(prompt="a 3", seed=1, steps=2)
    assert engine.generate(card, request).pictures
    with pytest.raises(Crashed, match="ran where none may"):
        engine.generate(planned_without_kernels(card), request)

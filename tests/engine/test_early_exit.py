"""Enders: a picture may end from the middle of its schedule on, never before, with the clean estimate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from restrike.cards.request import Request
from restrike.engine.builtin import EarlyExit, ResidualSkip, StepTimes
from restrike.engine.engine import Engine
from restrike.engine.events import StepFinished, Succeeded
from restrike.engine.extensions import Extension
from restrike.engine.gate import interleave_gate
from restrike.engine.requests import StreamOptions
from restrike.engine.result import Generation
from restrike.errors import Refused
from restrike.loops.contract import StepPlan, Tensors

from .driving import bytes_of, looped
from .test_stream import Counting

REQUEST = Request(prompt="a 3", seed=5, steps=8, guidance_mode="none")


@dataclass(frozen=True)
class EndsAt:
    """Has enough from a step (counted from 1) on."""

    step: int
    name: str = "ends-at"
    asked: list[int] = field(default_factory=list)

    def begin(self) -> None:
        return None

    def enough(self, memory: None, plan: StepPlan, outputs: Tensors) -> bool:
        self.asked.append(plan.index + 1)
        return plan.index + 1 >= self.step


def run(request: Request, *extensions: Extension) -> tuple[int, Generation]:
    """How many steps were taken, and what came out."""
    engine = Engine(device="cpu", extensions=extensions)
    events = list(engine.stream("digits", request))
    assert isinstance(events[-1], Succeeded)
    return sum(isinstance(event, StepFinished) for event in events), events[-1].generation


@pytest.mark.parametrize(
    ("steps", "asked", "taken"),
    [(8, 1, 4), (8, 4, 4), (8, 5, 5), (8, 7, 7), (8, 8, 8), (7, 1, 4), (1, 1, 1), (2, 1, 1), (3, 1, 2)],
)
def test_no_picture_ends_before_half_of_its_steps(steps: int, asked: int, taken: int) -> None:
    found, generation = run(replace(REQUEST, steps=steps), EndsAt(asked))
    assert found == taken
    assert generation.picture.frames_THWC.shape == (1, 8, 8, 3)


@pytest.mark.parametrize("solver", ["euler", "unipc", "sde"])
def test_what_it_ends_with_is_the_clean_estimate(solver: str) -> None:
    seen: list[torch.Tensor] = []

    @dataclass(frozen=True)
    class Watching(EndsAt):
        """Keeps the estimate that it ends with."""

        def enough(self, memory: None, plan: StepPlan, outputs: Tensors) -> bool:
            following = 1 - (plan.index + 1) / plan.total
            seen.append(outputs["latent"] - following * outputs["velocity"])
            return super().enough(memory, plan, outputs)

    request = replace(REQUEST, solver=solver, shift=1.0)
    _, generation = run(request, Watching(5))
    latent = generation.picture.latent
    assert latent is not None
    torch.testing.assert_close(latent, seen[4])
    whole = run(request)[1].picture.latent
    assert whole is not None
    assert not torch.equal(latent, whole)


def test_each_picture_ends_by_itself() -> None:
    ender = EndsAt(6)
    taken, generation = run(replace(REQUEST, items=(0, 1, 2)), ender)
    assert taken == 18
    assert ender.asked == [1, 2, 3, 4, 5, 6] * 3
    alone = [run(replace(REQUEST, items=(item,)), EndsAt(6))[1].picture for item in range(3)]
    made = [picture.frames_THWC.tobytes() for picture in generation.pictures]
    assert made == [picture.frames_THWC.tobytes() for picture in alone]


class TestEarlyExit:
    def test_threshold_zero_equals_the_plain_run(self, engine: Engine) -> None:
        plain = bytes_of(engine, REQUEST)
        exiting = Engine(device="cpu", extensions=(EarlyExit(threshold=0),))
        assert bytes_of(exiting, REQUEST) == plain
        assert exiting.generate("digits", REQUEST).notices == ("early-exit: ended after 8 of 8 steps",)

    @pytest.mark.parametrize("seed", range(4))
    def test_it_ends_when_the_estimate_has_settled_and_stays_near_the_whole_run(self, seed: int) -> None:
        request = replace(REQUEST, steps=40, seed=seed)
        taken, generation = run(request, EarlyExit())
        assert 20 <= taken < 40
        assert generation.notices == (f"early-exit: ended after {taken} of 40 steps",)
        early, whole = generation.picture.latent, run(request)[1].picture.latent
        assert early is not None
        assert whole is not None
        assert float((early - whole).norm() / whole.norm()) < 0.1

    def test_a_wider_threshold_ends_no_later(self) -> None:
        request = replace(REQUEST, steps=30)
        taken = [run(request, EarlyExit(threshold=size))[0] for size in (0.005, 0.05, 0.2, 9.0)]
        assert taken == sorted(taken, reverse=True)
        assert taken[-1] == 15

    def test_it_passes_the_gate(self) -> None:
        engine = Engine(device="cpu", extensions=(EarlyExit(), StepTimes()))
        requests = [replace(REQUEST, steps=20), replace(REQUEST, prompt="a 1", seed=6, steps=30)]
        report = interleave_gate(engine, "digits", requests)
        assert report.holds, report.changed


class TestRefusals:
    def test_an_exact_request(self) -> None:
        with pytest.raises(Refused, match=r"an exact request cannot run .* extension 'early-exit'"):
            Engine(device="cpu", extensions=(EarlyExit(),)).stream("digits", replace(REQUEST, exact=True))

    def test_beside_another_that_alters_the_result(self) -> None:
        with pytest.raises(Refused, match="extensions residual-skip and early-exit both alter the result"):
            Engine(device="cpu", extensions=(EarlyExit(), ResidualSkip()))

    def test_as_an_onlooker(self, engine: Engine) -> None:
        watched: Any = StreamOptions(observers=(EarlyExit(),))  # pyright: ignore[reportArgumentType]
        with pytest.raises(Refused, match="extension 'early-exit' does more than look"):
            engine.stream("digits", REQUEST, watched)

    def test_a_loop_that_cannot_end_early(self) -> None:
        card = looped(lambda inner: Counting())
        with pytest.raises(Refused, match="extension 'ends-at' cannot end this card's pictures early"):
            Engine(device="cpu", extensions=(EndsAt(1),)).generate(card, Request(prompt="a 1", steps=4))

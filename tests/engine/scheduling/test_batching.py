"""Steps of several pictures as one forward: whose, and that each gets what it would have got alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.driving import failing_at, kinds, looped, watched
from restrike.cards.request import Request, resolve
from restrike.engine.builtin import ResidualSkip, StepTimes
from restrike.engine.engine import Engine
from restrike.engine.events import Failed, PictureFinished, StepFinished, Succeeded
from restrike.engine.outcome import Outcome
from restrike.engine.requests import PlannedStep, StreamOptions
from restrike.engine.scheduling import batching
from restrike.engine.scheduling.batching import TOLERANCE, groups, stacked
from restrike.errors import Crashed, Refused
from restrike.loops.contract import LoopContext, StepPlan
from restrike.loops.denoise import DenoiseLoop, DenoiseState

WAYS: dict[str, dict[str, Any]] = {
    "euler": {},
    "sde": {"solver": "sde"},
    "unipc-cfg": {"solver": "unipc", "guidance_mode": "cfg", "guidance": 3},
    "every": {"guidance_mode": "batched", "guidance_every": 2},
}


def requests(count: int, **way: Any) -> list[tuple[str, Request]]:
    return [("digits", Request(prompt=f"a {k}", seed=k, steps=4, **way)) for k in range(count)]


def latents(ends: Sequence[Outcome]) -> list[Tensor]:
    found = [picture.latent for end in ends for picture in end.result().pictures]
    assert all(latent is not None for latent in found)
    return found  # pyright: ignore[reportReturnType]


def distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm())


class TestGroups:
    def test_equal_signatures_go_together_up_to_the_limit(self) -> None:
        assert groups("abcdefg", [1, 2, 1, 1, None, 2, None], 2) == [
            ["a", "c"],
            ["b", "f"],
            ["d"],
            ["e"],
            ["g"],
        ]

    def test_nothing_is_lost_and_nobody_comes_before_an_earlier_one_of_its_own_kind(self) -> None:
        steps = list(range(20))
        signatures = [step % 3 for step in steps]
        found = groups(steps, signatures, 3)
        assert sorted(step for group in found for step in group) == steps
        for kind in range(3):
            mine = [step for group in found for step in group if step % 3 == kind]
            assert mine == sorted(mine)


class TestEquality:
    @pytest.mark.parametrize("limit", [2, 3, 8])
    @pytest.mark.parametrize("way", WAYS)
    def test_each_gets_what_it_gets_alone(self, engine: Engine, way: str, limit: int) -> None:
        asked = requests(5, **WAYS[way])
        together = Engine(device="cpu", batch_limit=limit)
        made = together.generate_interleaved(asked)
        alone = engine.generate_interleaved(asked)
        for one, other in zip(latents(made), latents(alone), strict=True):
            assert distance(one, other) <= TOLERANCE
        for one, other in zip(made, alone, strict=True):
            for a, b in zip(one.result().picture.log_probs, other.result().picture.log_probs, strict=True):
                assert a.shape == b.shape == ()
                assert abs(float(a - b)) < 1e-5
        forwards = together.metrics().forwards
        assert max(forwards) == min(limit, 5)
        assert sum(size * count for size, count in forwards.items()) == 20

    def test_it_is_no_looser_than_one_rounding_of_the_noise(self, engine: Engine) -> None:
        """The tolerance is the card's own noise: what it makes of a difference in the last bit."""
        asked = requests(5, solver="unipc", guidance_mode="cfg")
        alone = latents(engine.generate_interleaved(asked))

        def rounded(inner: DenoiseLoop) -> Any:
            def init(context: LoopContext) -> DenoiseState:
                state = inner.init(context)
                state.latent = state.latent * (1 + 2**-23)
                return state

            loop = type("Rounded", (), {})()
            for name in ("next", "advance", "finalize", "preview"):
                setattr(loop, name, getattr(inner, name))
            loop.init = init
            return loop

        card = looped(rounded)
        nudged = latents(engine.generate_interleaved([(card, request) for _, request in asked]))
        noise = max(distance(one, other) for one, other in zip(nudged, alone, strict=True))
        assert 0 < noise <= TOLERANCE <= 200 * noise

    def test_the_tolerance_would_see_another_ones_row(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        honest = batching.rows
        monkeypatch.setattr(batching, "rows", lambda outputs, count: honest(outputs, count)[::-1])
        asked = requests(2)
        made = latents(Engine(device="cpu", batch_limit=2).generate_interleaved(asked))
        alone = latents(engine.generate_interleaved(asked))
        assert all(distance(one, other) > 100 * TOLERANCE for one, other in zip(made, alone, strict=True))

    def test_a_request_that_runs_alone_keeps_its_bytes(self, engine: Engine) -> None:
        request = requests(1)[0][1]
        alone = engine.generate("digits", request).picture
        made = Engine(device="cpu", batch_limit=8).generate("digits", request).picture
        assert made.frames_THWC.tobytes() == alone.frames_THWC.tobytes()
        assert torch.equal(made.latent, alone.latent)  # type: ignore[arg-type]

    def test_what_is_handed_out_keeps_no_other_pictures_memory(self) -> None:
        made = latents(Engine(device="cpu", batch_limit=4).generate_interleaved(requests(4)))
        assert all(latent.untyped_storage().nbytes() == latent.nbytes for latent in made)


class TestWhoIsBatched:
    def sizes(self, engine: Engine, asked: Sequence[tuple[Any, Request]]) -> dict[int, int]:
        for end in engine.generate_interleaved(asked):
            end.result()
        return dict(engine.metrics().forwards)

    def test_nobody_unless_asked(self) -> None:
        assert self.sizes(Engine(device="cpu"), requests(3)) == {1: 12}

    def test_a_limit_below_one_is_refused(self) -> None:
        with pytest.raises(Refused, match="a batch limit of 0 is below 1"):
            Engine(batch_limit=0)

    def test_exact_requests_run_alone_and_keep_their_bytes(self, engine: Engine) -> None:
        asked = [(card, replace(request, exact=True, items=(0, 1))) for card, request in requests(2)]
        batching_engine = Engine(device="cpu", batch_limit=4)
        made = latents(batching_engine.generate_interleaved(asked))
        alone = latents([*engine.generate_interleaved(asked)])
        assert all(torch.equal(one, other) for one, other in zip(made, alone, strict=True))
        assert dict(batching_engine.metrics().forwards) == {1: 16}

    def test_beside_an_exact_request_the_others_are_batched(self) -> None:
        (card, first), *rest = requests(3)
        asked = [(card, replace(first, exact=True)), *rest]
        assert self.sizes(Engine(device="cpu", batch_limit=4), asked) == {1: 4, 2: 4}

    def test_nobody_where_an_extension_may_answer_for_the_model(self) -> None:
        engine = Engine(device="cpu", batch_limit=4, extensions=(ResidualSkip(threshold=0.2),))
        assert self.sizes(engine, [(c, replace(r, items=(0, 1))) for c, r in requests(2)]) == {1: 16}

    def test_observers_are_in_nobodys_way(self) -> None:
        engine = Engine(device="cpu", batch_limit=4, extensions=(StepTimes(),))
        assert self.sizes(engine, requests(2)) == {2: 4}

    def test_steps_of_another_solver_guidance_or_shape_do_not_go_together(self) -> None:
        (_, base), *_ = requests(1)
        asked = [
            ("digits", base),
            ("digits", replace(base, solver="unipc")),
            ("digits", replace(base, guidance_mode="none")),
        ]
        assert self.sizes(Engine(device="cpu", batch_limit=4), asked) == {1: 12}

    def test_nor_do_those_of_another_card(self) -> None:
        other = looped(lambda inner: inner, name="other")
        asked = [("digits", requests(1)[0][1]), (other, requests(1)[0][1])]
        assert self.sizes(Engine(device="cpu", batch_limit=4), asked) == {1: 8}

    def test_other_numbers_of_steps_scales_and_shifts_do(self) -> None:
        asked = [
            ("digits", Request(prompt="a 1", seed=1, steps=3, guidance=2)),
            ("digits", Request(prompt="a 2", seed=2, steps=5, guidance=4, shift=3.0)),
        ]
        assert self.sizes(Engine(device="cpu", batch_limit=4), asked) == {1: 2, 2: 3}


def plans_of(engine: Engine, asked: Sequence[Request]) -> list[StepPlan]:
    """The first step of each."""
    resident = engine.load("digits")
    loop = resident.loop(resident.card.loops[0])
    found = []
    for request in asked:
        _, arguments = resolve(resident.card, request)
        context = LoopContext(
            arguments=arguments, item=0, device=resident.device, component=resident.component
        )
        found.append(loop.next(loop.init(context)))
    return found


def test_numbers_become_columns_and_tensors_rows(engine: Engine) -> None:
    plans = plans_of(engine, [Request(prompt="a 1", seed=k, guidance=1.5 + k) for k in range(3)])
    whole = stacked(plans)
    for name, value in whole.inputs.items():
        single = plans[1].inputs[name]
        assert value.shape[0] == 3
        assert value.ndim == (single.ndim or plans[1].inputs["latent"].ndim)
        assert torch.equal(value[1].flatten(), single.flatten())


def signed(engine: Engine, seed: int = 0, **changes: Any) -> Hashable:
    """The signature of a planned step with something of its plan changed."""
    asked = Request(prompt=f"a {seed}", seed=seed, steps=4)
    plan = replace(plans_of(engine, [asked])[0], **changes)
    run: Any = None
    request = engine._ready("digits", asked, StreamOptions())
    return batching.signature(PlannedStep(plan=plan, run=run, request=request))


def test_each_part_of_a_plan_that_decides_its_function_keeps_steps_apart(engine: Engine) -> None:
    (plan,) = plans_of(engine, [Request(prompt="a 0", seed=0, steps=4)])
    wider = {
        name: torch.cat([value, value], -1) if value.ndim > 1 else value
        for name, value in plan.inputs.items()
    }
    found = [
        signed(engine),
        signed(engine, component="another"),
        signed(engine, structure=("another",)),
        signed(engine, call=lambda module, inputs: module(inputs["latent"])),
        signed(engine, inputs=wider),
        signed(engine, inputs={name: value.double() for name, value in plan.inputs.items()}),
        signed(engine, inputs={**plan.inputs, "more": plan.inputs["latent"]}),
        signed(engine, inputs={**plan.inputs, "other": plan.inputs["latent"]}),
        signed(engine, inputs={name: value.to("meta") for name, value in plan.inputs.items()}),
        signed(Engine(device="cpu"), call=plan.call),
    ]
    assert None not in found
    assert len(set(found)) == len(found)
    assert signed(engine, seed=5) == found[0]
    assert signed(engine, capturable=False) is None
    two = {name: torch.cat([value, value]) if value.ndim else value for name, value in plan.inputs.items()}
    assert signed(engine, inputs=two) is None
    assert signed(engine, inputs={n: v for n, v in plan.inputs.items() if n != "latent"}) is None


class TestPicturesOfOneRequest:
    def test_they_run_side_by_side_and_come_in_order(self, engine: Engine) -> None:
        request = Request(prompt="a 6", seed=5, steps=2, items=(4, 0, 2))
        batched = Engine(device="cpu", batch_limit=2)
        events = list(batched.stream("digits", request))
        assert kinds(events) == [
            "Started",
            *["StepFinished"] * 4,
            *["PictureFinished"] * 2,
            *["StepFinished"] * 2,
            "PictureFinished",
            "Succeeded",
        ]
        steps = [(event.item, event.step) for event in events if isinstance(event, StepFinished)]
        assert steps == [(4, 1), (0, 1), (4, 2), (0, 2), (2, 1), (2, 2)]
        assert [e.picture.item for e in events if isinstance(e, PictureFinished)] == [4, 0, 2]
        assert dict(batched.metrics().forwards) == {1: 2, 2: 2}
        end = events[-1]
        assert isinstance(end, Succeeded)
        alone = engine.generate("digits", request).pictures
        for one, other in zip(end.generation.pictures, alone, strict=True):
            assert one.latent is not None
            assert other.latent is not None
            assert distance(one.latent, other.latent) <= TOLERANCE

    def test_when_one_fails_all_are_let_go(self) -> None:
        calls: Counter[str] = Counter()
        card = watched(calls, failing_at(2, ValueError("broken"), item=1))
        engine = Engine(device="cpu", batch_limit=4)
        events = list(engine.stream(card, Request(prompt="a 6", seed=5, steps=3, items=(0, 1, 2))))
        assert isinstance(events[-1], Failed)
        assert calls["abandon"] == 3


class TestFailure:
    def test_a_shared_forward_that_fails_is_run_one_by_one(self, engine: Engine) -> None:
        batched = Engine(device="cpu", batch_limit=4)
        ((_, request),) = requests(3, guidance_mode="none")[1:2]
        bad = plans_of(batched, [request])[0].inputs["cond.text"]

        def hook(module: Any, inputs: tuple[Tensor, ...]) -> None:
            text = next(value for value in inputs if value.shape[1:] == bad.shape[1:])
            if any(torch.allclose(row, bad[0]) for row in text):
                raise ValueError("a 1 is not for me")

        handle = batched.load("digits").component("transformer").register_forward_pre_hook(hook)
        made = batched.generate_interleaved(requests(3, guidance_mode="none"))
        handle.remove()
        assert isinstance(made[1].error, Crashed)
        assert "a 1 is not for me" in made[1].error.message
        alone = latents(engine.generate_interleaved(requests(3, guidance_mode="none")))
        for index in (0, 2):
            mine = made[index].result().picture.latent
            assert mine is not None
            assert distance(mine, alone[index]) <= TOLERANCE
        metrics = batched.metrics()
        assert metrics.alone_again == 3
        # After the one that fails is gone, the others share their forwards again.
        assert dict(metrics.forwards) == {1: 2, 2: 3}

    def test_pictures_that_all_fail_end_their_request_once_and_no_other(self, engine: Engine) -> None:
        batched = Engine(device="cpu", batch_limit=4)
        ((_, bad), (_, good)) = requests(2, guidance_mode="none")
        text = plans_of(batched, [bad])[0].inputs["cond.text"]

        def hook(module: Any, inputs: tuple[Tensor, ...]) -> None:
            if any(torch.allclose(row, text[0]) for value in inputs if value.ndim == 3 for row in value):
                raise ValueError("not this prompt")

        handle = batched.load("digits").component("transformer").register_forward_pre_hook(hook)
        asked = [("digits", replace(bad, items=(0, 1, 2))), ("digits", good)]
        failed, made = batched.generate_interleaved(asked)
        handle.remove()
        assert isinstance(failed.error, Crashed)
        alone = engine.generate("digits", good).picture.latent
        assert alone is not None
        assert distance(latents([made])[0], alone) <= TOLERANCE

    def test_one_that_fails_to_take_its_row_fails_alone(self, engine: Engine) -> None:
        card = watched(Counter(), failing_at(2, ValueError("broken"), item=7))
        asked = [
            (card, Request(prompt="a 1", seed=1, steps=3)),
            (card, Request(prompt="a 2", seed=2, steps=3, items=(7,))),
            (card, Request(prompt="a 3", seed=3, steps=3)),
        ]
        first, failed, last = Engine(device="cpu", batch_limit=4).generate_interleaved(asked)
        assert isinstance(failed.error, Crashed)
        for end, (_, request) in ((first, asked[0]), (last, asked[2])):
            alone = engine.generate("digits", request).picture.latent
            assert alone is not None
            assert distance(latents([end])[0], alone) <= TOLERANCE


def test_nobody_starves_beside_longer_and_later_requests() -> None:
    """Four places a forward, six requests of different lengths: every round takes a step of each."""
    steps: list[int] = []

    engine = Engine(device="cpu", batch_limit=4)
    counts = (2, 9, 3, 9, 1, 5)
    resident = watched(Counter(), lambda state: steps.append(state.context.arguments.seed))
    asked = [(resident, Request(prompt="a 1", seed=k, steps=count)) for k, count in enumerate(counts)]
    for end in engine.generate_interleaved(asked):
        end.result()
    position = 0
    for step in range(max(counts)):
        due = {index for index, count in enumerate(counts) if step < count}
        assert set(steps[position : position + len(due)]) == due
        position += len(due)

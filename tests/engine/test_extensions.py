"""Extensions: observers change nothing, interceptors are counted, bounded and refused where they must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import pytest
import torch
from torch import Tensor

from restrike.cards.request import Request
from restrike.engine.builtin import NonFinite, ResidualSkip, StepTimes
from restrike.engine.engine import Engine
from restrike.engine.events import Failed, Noticed
from restrike.engine.extensions import Extension, ForwardCall, extension
from restrike.engine.gate import contents
from restrike.engine.requests import StreamOptions
from restrike.errors import Refused, Unknown
from restrike.loops.contract import StepPlan, Tensors

from .driving import bytes_of, counted_forwards, failing_at, watched

REQUEST = Request(prompt="a 3", seed=5, items=(0, 1), guidance_mode="cfg")


def engine_with(*extensions: Extension) -> Engine:
    return Engine(device="cpu", extensions=extensions)


@dataclass
class Recorder:
    """Observes and keeps what it saw, for the test to look at; tells how many steps a picture had."""

    name: str = "recorder"
    begun: int = 0
    seen: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    def begin(self) -> list[int]:
        self.begun += 1
        return []

    def observe(self, memory: list[int], plan: StepPlan, outputs: Tensors, seconds: float) -> None:
        memory.append(plan.index)
        self.seen.append((plan.index, tuple(outputs)))

    def report(self, memory: list[int]) -> tuple[str, ...]:
        return (f"saw steps {memory[0]} to {memory[-1]}",)


@dataclass
class Passing:
    """Intercepts, notes the order of calls, and lets every forward run."""

    name: str
    order: list[str] = field(default_factory=list)
    alters: bool = False
    begun: int = 0

    def begin(self) -> Any:
        self.begun += 1
        return object()

    def intercept(self, memory: Any, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        self.order.append(f"{self.name} {call.branch}")
        return forward()


@dataclass(frozen=True)
class NaNAt:
    """Puts one NaN, or another value, into the velocity of a step (from 1)."""

    step: int
    value: float = torch.nan
    name: str = "nan"
    alters: bool = field(default=True, init=False)

    def begin(self) -> None:
        return None

    def intercept(self, memory: None, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        velocity = forward()
        if call.plan.index + 1 == self.step:
            velocity = velocity.clone()
            velocity[0, 0, 3, 3] = self.value
        return velocity


class TestObservers:
    def test_they_change_no_byte_and_no_call(self) -> None:
        bare, observing = engine_with(), engine_with(StepTimes(), NonFinite(), Recorder())
        with counted_forwards(bare) as plain, counted_forwards(observing) as observed:
            assert bytes_of(observing, REQUEST) == bytes_of(bare, REQUEST)
        assert observed == plain == {"text_encoder": 2, "transformer": 32, "decoder": 2}

    def test_each_picture_has_its_own_memory(self) -> None:
        recorder = Recorder()
        generation = engine_with(recorder).generate("digits", REQUEST)
        assert recorder.begun == 2
        assert [index for index, _ in recorder.seen] == [*range(8), *range(8)]
        assert generation.notices == ("recorder: saw steps 0 to 7",) * 2

    def test_step_times_are_told_for_each_expert(self) -> None:
        (line,) = engine_with(StepTimes()).generate("digits", Request(prompt="a 3", seed=5)).notices
        assert line.startswith("step-times: transformer: 8 steps, median ")

    @pytest.mark.parametrize("step", [1, 5, 8])
    def test_the_first_non_finite_value_is_located(self, step: int) -> None:
        events = list(engine_with(NaNAt(step), NonFinite()).stream("digits", Request(prompt="a 3", seed=5)))
        assert events[-2] == Noticed(
            message=f"non-finite: first non-finite value at step {step} of 8, in velocity", item=0
        )

    def test_a_latent_that_is_not_finite_is_no_picture(self) -> None:
        with pytest.raises(Refused, match="NaN or infinity; the extension non-finite"):
            engine_with(NaNAt(3)).generate("digits", Request(prompt="a 3", seed=5))

    def test_a_clean_run_has_no_finding(self) -> None:
        assert engine_with(NonFinite()).generate("digits", REQUEST).notices == ()

    def test_a_failed_request_still_tells_what_was_observed(self) -> None:
        card = watched(Counter(), failing_at(6, ValueError("broken")))
        events = list(engine_with(NaNAt(2), NonFinite()).stream(card, Request(prompt="a 3", seed=5)))
        assert isinstance(events[-1], Failed)
        assert events[-2] == Noticed(
            message="non-finite: first non-finite value at step 2 of 8, in velocity", item=0
        )


class TestInterceptors:
    def test_one_that_only_looks_changes_nothing(self, engine: Engine) -> None:
        passing = Passing("passing")
        assert bytes_of(engine_with(passing), REQUEST) == bytes_of(engine, REQUEST)
        assert passing.order == ["passing cond", "passing uncond"] * 16

    def test_memory_is_made_for_each_picture_and_branch(self) -> None:
        passing = Passing("passing")
        engine_with(passing).generate("digits", REQUEST)
        assert passing.begun == 4

    def test_the_first_is_the_outermost(self) -> None:
        order: list[str] = []
        engine = engine_with(Passing("outer", order), StepTimes(), Passing("inner", order))
        engine.generate("digits", Request(prompt="a 3", seed=5, steps=1, guidance_mode="none"))
        assert order == ["outer cond", "inner cond"]

    def test_its_answer_is_honoured(self, engine: Engine) -> None:
        assert bytes_of(engine_with(NaNAt(8, value=50.0)), REQUEST) != bytes_of(engine, REQUEST)


class TestResidualSkip:
    def test_threshold_zero_equals_the_plain_run(self, engine: Engine) -> None:
        skipping = engine_with(ResidualSkip(threshold=0))
        assert bytes_of(skipping, REQUEST) == bytes_of(engine, REQUEST)
        assert (
            skipping.generate("digits", REQUEST).notices
            == (
                "residual-skip: transformer: cond: 0 of 8 forwards skipped",
                "residual-skip: transformer: uncond: 0 of 8 forwards skipped",
            )
            * 2
        )

    def test_some_forwards_are_skipped_and_counted_while_the_solver_runs_every_step(
        self, engine: Engine
    ) -> None:
        request = Request(prompt="a 3", seed=5, steps=40, guidance_mode="none")
        skipping, calls = engine_with(ResidualSkip(threshold=0.05)), Counter[str]()
        with counted_forwards(skipping) as forwards:
            generation = skipping.generate("digits", request)
        assert 20 <= forwards["transformer"] < 40
        skipped = 40 - forwards["transformer"]
        assert generation.notices == (f"residual-skip: transformer: cond: {skipped} of 40 forwards skipped",)
        skipping.generate(watched(calls), request)
        assert calls["advance"] == 40
        plain, fast = engine.generate("digits", request).picture.latent, generation.picture.latent
        assert plain is not None
        assert fast is not None
        assert float((plain - fast).norm() / plain.norm()) < 0.05


class TestOnlookers:
    """Observers of one request, given by who drives it."""

    def test_they_see_that_request_alone_and_change_no_byte(self, engine: Engine) -> None:
        alone = bytes_of(engine, REQUEST)
        recorder = Recorder()
        watched_one = StreamOptions(observers=(recorder,))
        ends = engine.generate_interleaved(
            [("digits", REQUEST), ("digits", REQUEST)], [watched_one, StreamOptions()]
        )
        first, second = (end.result() for end in ends)
        assert recorder.begun == 2
        assert first.notices == ("recorder: saw steps 0 to 7",) * 2
        assert second.notices == ()
        for made in (first, second):
            assert {item: str(content) for item, content in contents(made).items()} == alone

    def test_an_interceptor_is_no_onlooker(self, engine: Engine) -> None:
        with pytest.raises(Refused, match="extension 'passing' does more than look"):
            engine.stream("digits", REQUEST, StreamOptions(observers=(Passing("passing"),)))  # type: ignore[arg-type]

    def test_one_that_the_engine_has_is_not_given_again(self) -> None:
        with pytest.raises(Refused, match="extension 'step-times' is given twice"):
            engine_with(StepTimes()).stream("digits", REQUEST, StreamOptions(observers=(StepTimes(),)))


class TestRefusals:
    def test_two_that_alter_the_result(self) -> None:
        with pytest.raises(Refused, match="extensions residual-skip and nan both alter the result"):
            engine_with(ResidualSkip(), NaNAt(1))

    def test_one_name_twice(self) -> None:
        with pytest.raises(Refused, match="extension 'step-times' is given twice"):
            engine_with(StepTimes(), NonFinite(), StepTimes())

    def test_what_is_no_extension(self) -> None:
        with pytest.raises(Refused, match="Engine is no extension"):
            engine_with(Engine())  # pyright: ignore[reportArgumentType]

    def test_an_exact_request_on_an_engine_that_alters(self) -> None:
        exact = Request(prompt="a 3", seed=5, exact=True)
        with pytest.raises(Refused, match=r"an exact request cannot run .* extension 'residual-skip'"):
            engine_with(NonFinite(), ResidualSkip()).stream("digits", exact)

    def test_an_exact_request_passes_what_does_not_alter(self, engine: Engine) -> None:
        exact = Request(prompt="a 3", seed=5, exact=True)
        plain = bytes_of(engine, Request(prompt="a 3", seed=5))
        assert bytes_of(engine_with(NonFinite(), Passing("passing")), exact) == plain

    def test_an_unknown_name(self) -> None:
        with pytest.raises(
            Unknown, match=r"unknown extension 'step-time', did you mean 'step-times'\?"
        ) as one:
            extension("step-time")
        assert "Known: early-exit, non-finite, residual-skip, step-times." in one.value.message

    def test_no_request_can_name_an_extension(self) -> None:
        assert not [part.name for part in fields(Request) if "extension" in part.name]


@pytest.mark.parametrize("name", ["early-exit", "non-finite", "residual-skip", "step-times"])
def test_installed_extensions_are_found_by_name(name: str) -> None:
    assert extension(name).name == name

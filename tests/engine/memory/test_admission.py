"""Requests begin when what they need fits; what they reserved comes back on every way out."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from engine.driving import failing_at, watched
from restrike.cards.card import Component, ModelCard
from restrike.cards.checkpoint import Checkpoint
from restrike.cards.placement import Placement
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.events import Event, Failed, StepFinished, Succeeded
from restrike.engine.gate import contents
from restrike.engine.memory import admission
from restrike.engine.memory.admission import STATE, AdmissionGate, Claim, _elsewhere, _together, claim_of
from restrike.engine.memory.budget import Budget
from restrike.engine.memory.peaks import DECODE, Need, Peaks, Phase, form_of
from restrike.engine.memory.residency import Residency
from restrike.engine.requests import Cancellation, StreamOptions
from restrike.engine.resident import ResidentCard
from restrike.errors import Cancelled, Crashed, RestrikeError, Shortfall
from restrike.models.digits.card import CARD
from restrike.models.pipeline.options import PipelineOptions, Quantization, card_with

SEVEN = Request(prompt="a seven", seed=1, steps=3)
TRANSFORMER_BYTES = 2_174_608
ONE_CARD_BYTES = int(1.5 * TRANSFORMER_BYTES)
ONE, OTHER = replace(CARD, name="one"), replace(CARD, name="other")


def is_clean(engine: Engine) -> bool:
    """Whether nothing is reserved or pinned and nobody is inside."""
    (found,) = engine.memory()
    residents = engine._residents.values()
    holds = any(part.holds for resident in residents for part in resident.parts())
    pins = any(residency.turn.pinned for residency in engine._residencies.values())
    (admitted,) = (gate for gate in engine._door._gates if isinstance(gate, AdmissionGate))
    inside = any(resident._begun_s for resident in residents) or any(admitted._inside.values())
    return not (found.reserved or holds or pins or inside or any(engine._door.counts))


def driven_to(engine: Engine, card: ModelCard, steps: int, request: Request = SEVEN) -> list[Event]:
    """A request that was driven so far and then closed."""
    stream = engine.stream(card, request)
    seen: list[Event] = []
    for event in stream:
        seen.append(event)
        if sum(isinstance(each, StepFinished) for each in seen) == steps:
            break
    stream.close()
    return seen


class TestWaiting:
    def test_what_does_not_fit_beside_another_waits_and_gives_the_same(self) -> None:
        engine = Engine(device="cpu", memory_limit_bytes=ONE_CARD_BYTES)
        alone = contents(Engine(device="cpu").generate(CARD, SEVEN))
        outcomes = engine.generate_interleaved([(ONE, SEVEN), (OTHER, SEVEN), (ONE, SEVEN)])
        assert [contents(each.result()) for each in outcomes] == [alone] * 3
        assert is_clean(engine)
        # Not one step of either was taken in between: each card came once.
        loads = {(r.card, r.component): r.loads for r in engine.memory()[0].residents}
        assert loads["one", "transformer"] + loads["other", "transformer"] <= 3

    def test_with_room_for_both_nobody_waits(self) -> None:
        engine = Engine(device="cpu")
        for made in engine.generate_interleaved([(ONE, SEVEN), (OTHER, SEVEN)]):
            assert not made.result().notices
        assert not engine.memory()[0].evictions

    def test_threads_wait_for_each_other(self) -> None:
        engine = Engine(device="cpu", memory_limit_bytes=ONE_CARD_BYTES)
        alone = contents(Engine(device="cpu").generate(CARD, SEVEN))
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda card: contents(engine.generate(card, SEVEN)), [ONE, OTHER] * 4))
        assert made == [alone] * 8
        assert is_clean(engine)

    def test_a_thread_that_holds_the_memory_itself_is_told_so(self) -> None:
        engine = Engine(device="cpu", memory_limit_bytes=ONE_CARD_BYTES)
        first, second = engine.stream(ONE, SEVEN), engine.stream(OTHER, SEVEN)
        for _ in range(3):
            next(first)
        last = list(second)[-1]
        assert isinstance(last, Failed)
        assert isinstance(last.error, Shortfall)
        assert re.search(r"of the 3\.3 MB .* on cpu, which 1 running request\(s\) share", last.error.message)
        assert isinstance(list(first)[-1], Succeeded)
        assert is_clean(engine)

    def test_what_was_measured_replaces_what_was_guessed(self) -> None:
        # Room for two cards as they are, not as they are guessed to be with activations of the same size.
        engine = Engine(device="cpu", memory_limit_bytes=int(2.4 * TRANSFORMER_BYTES))
        for card in (ONE, OTHER):
            engine.generate(card, SEVEN)
        first, second = engine.stream(ONE, SEVEN), engine.stream(OTHER, SEVEN)
        for _ in range(3):
            assert next(first), next(second)
        first.close()
        second.close()
        assert is_clean(engine)


class TestRefusal:
    def test_remembered_activations_decide_too(self) -> None:
        limit_bytes = TRANSFORMER_BYTES + 50_000
        engine = Engine(device="cpu", memory_limit_bytes=limit_bytes)
        with pytest.raises(
            Shortfall, match=r"no room on cpu for phase 'step': it needs 156\.2 kB, and 50\.0 kB"
        ):
            engine.generate(ONE, SEVEN)  # Nothing is known of its activations until a step was measured.
        began = time.perf_counter()
        with pytest.raises(
            Shortfall, match=r"card 'one' needs 2\.\d MB at once .*components 2\.2 MB.* may use 2\.2 MB"
        ):
            engine.generate(ONE, SEVEN)
        assert time.perf_counter() - began < 1
        assert is_clean(engine)

    def test_another_size_of_budget_serves_the_same_request(self) -> None:
        assert Engine(device="cpu", memory_limit_bytes=ONE_CARD_BYTES).generate(ONE, SEVEN)


def torn(card: ModelCard) -> ModelCard:
    """The card with a decoder that does not load."""

    def load(checkpoint: Checkpoint, placement: Placement) -> object:
        raise Crashed("the decoder is torn")

    def part(each: Component) -> Component:
        return replace(each, load=load) if each.name == "decoder" else each

    return replace(card, components=tuple(map(part, card.components)))


def succeeds(engine: Engine) -> None:
    engine.generate(ONE, SEVEN)


def is_abandoned(engine: Engine) -> None:
    driven_to(engine, ONE, 2)


def is_closed_before_it_begins(engine: Engine) -> None:
    stream = engine.stream(ONE, SEVEN)
    next(stream)
    stream.close()


def fails_in_a_step(engine: Engine) -> None:
    engine.generate(watched(Counter(), failing_at(2, RuntimeError("failed"))), SEVEN)


def runs_out_of_memory(engine: Engine) -> None:
    engine.generate(watched(Counter(), failing_at(2, MemoryError())), SEVEN)


def is_interrupted(engine: Engine) -> None:
    engine.generate(watched(Counter(), failing_at(2, KeyboardInterrupt())), SEVEN)


def does_not_load(engine: Engine) -> None:
    engine.generate(torn(ONE), SEVEN)


def is_cancelled(engine: Engine) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    engine.generate(ONE, SEVEN, StreamOptions(cancellation=cancellation))


def is_refused_at_its_prompt(engine: Engine) -> None:
    engine.generate(ONE, replace(SEVEN, prompt="neither"))


ENDS: list[Callable[[Engine], None]] = [
    succeeds,
    is_abandoned,
    is_closed_before_it_begins,
    fails_in_a_step,
    runs_out_of_memory,
    is_interrupted,
    does_not_load,
    is_cancelled,
    is_refused_at_its_prompt,
]


@pytest.mark.parametrize("end", ENDS)
def test_reservations_come_back_however_a_request_ends(end: Callable[[Engine], None]) -> None:
    engine = Engine(device="cpu")
    engine.generate(ONE, SEVEN)
    before = engine.memory()[0].reserved
    with suppress(RestrikeError, KeyboardInterrupt):
        end(engine)
    assert engine.memory()[0].reserved == before == {}
    assert is_clean(engine)
    assert engine.generate(ONE, SEVEN)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (ResidentCard, "begun"),
        (Budget, "claim"),
        (Residency, "watch"),
        (Residency, "keep"),
        (Residency, "room"),
        (Peaks, "of"),
    ],
)
@pytest.mark.parametrize("error", [RuntimeError("planted"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_reservations_come_back_from_each_point_on_the_way(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, error: BaseException
) -> None:
    engine = Engine(device="cpu")
    engine.generate(ONE, SEVEN)
    real = getattr(owner, name)
    for call in range(1, 4):
        calls = count(1)

        def planted(*given: Any, call: int = call, calls: Iterator[int] = calls, **named: Any) -> Any:
            if next(calls) == call:
                raise error
            return real(*given, **named)

        with monkeypatch.context() as patch, suppress(RestrikeError, RuntimeError, KeyboardInterrupt):
            patch.setattr(owner, name, planted)
            engine.generate(ONE, SEVEN)
        assert engine.memory()[0].reserved == {}
        assert is_clean(engine)
        assert engine.generate(ONE, SEVEN)


def test_a_running_request_has_its_state_reserved() -> None:
    engine = Engine(device="cpu")
    engine.generate(ONE, SEVEN)
    stream = engine.stream(ONE, SEVEN)
    while not isinstance(next(stream), StepFinished):
        pass
    assert engine.memory()[0].reserved[STATE] > 0
    assert not is_clean(engine)
    stream.close()
    assert is_clean(engine)


def test_an_opaque_loop_keeps_its_components_from_its_first_step_to_its_last() -> None:
    opaque = replace(ONE, loops=(replace(CARD.loops[0], opaque=True),))
    engine = Engine(device="cpu", memory_limit_bytes=ONE_CARD_BYTES)
    stream = engine.stream(opaque, SEVEN)
    while not isinstance(next(stream), StepFinished):
        pass
    # Who does not ask at the door, such as a look at another card, cannot push it out either.
    with pytest.raises(Shortfall, match=r"beside what is in use .*component 'transformer' of card 'one'"):
        engine.load(OTHER).component("transformer")
    assert isinstance(list(stream)[-1], Succeeded)
    assert engine.load(OTHER).component("transformer")


def test_a_driven_loop_does_not() -> None:
    engine = Engine(device="cpu", memory_limit_bytes=ONE_CARD_BYTES)
    stream = engine.stream(ONE, SEVEN)
    while not isinstance(next(stream), StepFinished):
        pass
    assert engine.load(OTHER).component("transformer")
    assert isinstance(list(stream)[-1], Succeeded)


def claim(engine: Engine, card: ModelCard, components: int, phase: int, kept: int) -> Claim:
    return Claim(
        resident=engine.load(card),
        components_bytes=components,
        phase_bytes=phase,
        kept_bytes=kept,
        least_bytes=phase,
    )


def test_one_computes_at_a_time_and_cards_share_nothing_but_requests_of_one_card_do() -> None:
    engine = Engine(device="cpu")
    small, large = claim(engine, ONE, 100, 110, 1), claim(engine, ONE, 100, 150, 1)
    other = claim(engine, OTHER, 40, 100, 1)
    assert _together([small]) == 111
    assert _together([small, large]) == 152
    assert _together([small, other]) == 100 + 40 + 60 + 2


def test_a_claim_is_guessed_from_files_until_it_is_measured() -> None:
    engine = Engine(device="cpu")
    resident = engine.load(ONE)
    ask = engine._ready(ONE, SEVEN, StreamOptions()).ask
    sizes = [part.size_bytes for part in resident.parts(*ask.spec.components)]
    guessed = claim_of(resident, ask)
    assert (guessed.components_bytes, guessed.phase_bytes) == (sum(sizes), sum(sizes) + max(sizes))
    assert (guessed.least_bytes, guessed.kept_bytes) == (max(sizes), 0)
    form = form_of(ask.spec, ask.arguments)
    need = Need(activations_bytes=70, kept_bytes=3, components_bytes=500, used=frozenset())
    # Of another form it is known which components the loop uses at once.
    resident.peaks.remember(Phase(name=DECODE, form=form._replace(frames=9)), need)
    assert claim_of(resident, ask).components_bytes == 500
    assert claim_of(resident, ask).phase_bytes == 500 + max(sizes)
    resident.peaks.remember(Phase(name=DECODE, form=form), need)
    measured = claim_of(resident, ask)
    assert (measured.components_bytes, measured.phase_bytes, measured.kept_bytes) == (500, 570, 3)
    whole = claim_of(resident, replace(ask, spec=replace(ask.spec, opaque=True)))
    assert (whole.components_bytes, whole.phase_bytes) == (sum(sizes), sum(sizes) + 70)


def test_beside_requests_counts_what_is_set_aside_and_what_cannot_leave_of_other_cards() -> None:
    engine = Engine(device="cpu")
    one, other = claim(engine, ONE, 100, 110, 1), claim(engine, OTHER, 40, 100, 1)
    residency = one.resident.residency
    with residency.budget.claim("graphs", 7), residency.budget.claim(STATE, 5):
        assert _elsewhere(residency, [one]) == 7
        engine.generate(OTHER, SEVEN)
        other.resident.changed("transformer")  # no file holds it now
        assert _elsewhere(residency, [one]) == 7 + TRANSFORMER_BYTES
        assert _elsewhere(residency, [one, other]) == 7


@pytest.mark.parametrize(("graphs_bytes", "waits"), [(200, False), (900, True)])
def test_who_comes_second_waits_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch, graphs_bytes: int, waits: bool
) -> None:
    engine, gate = Engine(device="cpu", memory_limit_bytes=1000), AdmissionGate()
    small = claim(engine, ONE, 100, 110, 1)
    monkeypatch.setattr(admission, "claim_of", lambda resident, ask: small)
    ask = engine._ready(ONE, SEVEN, StreamOptions()).ask
    leave = gate.enter(ask)
    assert leave is not None
    with small.resident.residency.budget.claim("graphs", graphs_bytes):
        second = gate.enter(ask)
        assert (second is None) == waits
        if second is not None:
            second()
    leave()


@pytest.mark.parametrize(("kept_bytes", "refused"), [(890, False), (891, True)])
def test_what_is_kept_between_steps_counts_for_what_can_never_fit(
    monkeypatch: pytest.MonkeyPatch, kept_bytes: int, refused: bool
) -> None:
    engine, gate = Engine(device="cpu", memory_limit_bytes=1000), AdmissionGate()
    asked = claim(engine, ONE, 100, 110, kept_bytes)
    monkeypatch.setattr(admission, "claim_of", lambda resident, ask: asked)
    ask = engine._ready(ONE, SEVEN, StreamOptions()).ask
    if refused:
        with pytest.raises(Shortfall, match=r"card 'one' needs 1\.0 kB at once"):
            gate.enter(ask)
    else:
        assert gate.enter(ask) is not None


def test_a_cancelled_request_leaves_the_line() -> None:
    with pytest.raises(Cancelled):
        is_cancelled(Engine(device="cpu"))


def test_what_files_do_not_tell_is_no_reason_to_refuse() -> None:
    unsized = replace(CARD, components=tuple(replace(part, sized_by_files=False) for part in CARD.components))
    engine = Engine(device="cpu", memory_limit_bytes=1_000_000)
    with pytest.raises(Shortfall, match=r"no room on cpu for component 'transformer' .*: it needs 2\.2 MB"):
        engine.generate(unsized, SEVEN)
    # It was measured by being loaded.
    with pytest.raises(Shortfall, match=r"needs 2\.2 MB at once on cpu for this request"):
        engine.generate(unsized, SEVEN)
    assert is_clean(engine)


@pytest.mark.parametrize(
    ("options", "sized"),
    [
        (PipelineOptions(), True),
        (PipelineOptions(variant="fp16"), True),
        (PipelineOptions(offload="model"), False),
        (PipelineOptions(precision="float16"), False),
        (PipelineOptions(without=("safety_checker",)), False),
        (PipelineOptions(quantization=Quantization(name="TorchAoConfig", components=("unet",))), False),
    ],
)
def test_a_pipeline_is_sized_by_its_files_when_it_is_held_as_published(
    options: PipelineOptions, sized: bool
) -> None:
    assert [part.sized_by_files for part in card_with(options).components] == [sized]


def test_activations_are_set_aside_for_a_step_and_no_longer() -> None:
    engine = Engine(device="cpu")
    engine.generate(ONE, SEVEN)
    during: list[int] = []
    transformer = engine.load(ONE).component("transformer")
    hook = transformer.register_forward_hook(
        lambda *_: during.append(engine.memory()[0].reserved.get("phase 'step'", 0))
    )
    after = [
        engine.memory()[0].reserved.keys()
        for event in engine.stream(ONE, SEVEN)
        if isinstance(event, StepFinished)
    ]
    hook.remove()
    assert len(during) == len(after) == SEVEN.steps
    assert min(during) > 100_000
    assert all(found == {STATE} for found in after)

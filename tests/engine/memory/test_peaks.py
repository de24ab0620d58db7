"""What a phase takes is measured at its first time, and is what an independent measurement says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from restrike.cards.request import Request, resolve
from restrike.engine.engine import Engine
from restrike.engine.events import StepFinished
from restrike.engine.gate import contents
from restrike.engine.memory import working
from restrike.engine.memory.meters import StorageMeter, metered
from restrike.engine.memory.peaks import DECODE, Form, Need, Peaks, Phase, form_of
from restrike.engine.resident import ResidentCard

from .rooms import CPU

MARGIN, SCRATCH_BYTES = 0.02, 512_000
"""How far a peak may be from the measured one: a share of it, and what kernels allocate inside."""
KB = 1000
REQUESTS = {
    "digits": Request(prompt="a seven", seed=1, steps=2),
    "shapes": Request(prompt="a red circle moving left", seed=1, steps=2),
}


def peak_of(run: profile) -> int:
    """The most that was allocated at one time, by the allocator's own events."""
    assert run.profiler is not None
    now = most = 0
    for event in run.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


@pytest.mark.parametrize("card", REQUESTS)
def test_the_peak_that_is_remembered_is_the_one_that_the_allocator_sees(
    card: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(device="cpu")
    engine.generate(card, REQUESTS[card])
    seen: dict[Phase, int] = {}

    @contextmanager
    def profiled(self: ResidentCard, phase: Phase) -> Iterator[None]:
        with self.turn, profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
            yield
        seen[phase] = peak_of(run)

    # Another prompt, so that its text is encoded too.
    other = replace(
        REQUESTS[card], prompt=REQUESTS[card].prompt.replace("seven", "two").replace("red", "blue")
    )
    with monkeypatch.context() as patched:
        patched.setattr(ResidentCard, "phase", profiled)
        engine.generate(card, other)
    assert {phase.name for phase in seen} == {"encode", "step", "decode"}
    figures: dict[str, tuple[int, int]] = {}
    for phase, measured_bytes in seen.items():
        need = engine.load(card).peaks.of(phase)
        assert need is not None, phase
        margin_bytes = MARGIN * measured_bytes + SCRATCH_BYTES
        assert abs(need.activations_bytes - measured_bytes) <= margin_bytes, phase.name
        figures[phase.name] = (need.activations_bytes, measured_bytes)
    # Where the peak is well above what kernels allocate inside, and not within the margin of nothing.
    name, least_bytes = {"digits": ("step", 100 * KB), "shapes": ("decode", 10_000 * KB)}[card]
    predicted_bytes, measured_bytes = figures[name]
    assert measured_bytes > least_bytes
    assert abs(predicted_bytes - measured_bytes) <= MARGIN * measured_bytes


def needs(engine: Engine, request: Request) -> dict[str, Need]:
    """What each phase of a request was measured to take, the last of its name."""
    resident = engine.load("digits")
    spec, arguments = resolve(resident.card, request)
    form = form_of(spec, arguments)
    return {phase.name: need for phase, need in resident.peaks._needs[form].items()}


def test_components_are_counted_beside_activations_and_not_as_such() -> None:
    engine = Engine(device="cpu")
    engine.generate("digits", REQUESTS["digits"])
    found = needs(engine, REQUESTS["digits"])
    sizes = {part.name: part.size_bytes for part in engine.load("digits").parts()}
    assert found["step"].components_bytes == sizes["transformer"]
    assert found["decode"].components_bytes == sizes["decoder"]
    # The first decoding loads the decoder; its weights are no activations.
    assert found["decode"].activations_bytes < 5 * KB
    assert found["step"].activations_bytes < 300 * KB


def test_steps_of_more_pictures_at_once_are_measured_by_themselves() -> None:
    engine = Engine(device="cpu", batch_limit=4)
    engine.generate("digits", replace(REQUESTS["digits"], items=(0,)))
    one = needs(engine, REQUESTS["digits"])["step"].activations_bytes
    engine.generate("digits", replace(REQUESTS["digits"], items=(0, 1, 2, 3)))
    four = needs(engine, REQUESTS["digits"])["step"].activations_bytes
    assert 3 * one < four < 5 * one


def test_measuring_changes_no_byte() -> None:
    engine = Engine(device="cpu")
    first, second = (contents(engine.generate("digits", REQUESTS["digits"])) for _ in range(2))
    assert first == second


def test_only_the_first_time_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[torch.device] = []

    @contextmanager
    def counted(device: torch.device) -> Iterator[object]:
        measured.append(device)
        with metered(device) as meter:
            yield meter

    monkeypatch.setattr(working, "metered", counted)
    engine = Engine(device="cpu")
    engine.generate("digits", REQUESTS["digits"])
    first = len(measured)
    engine.generate("digits", replace(REQUESTS["digits"], seed=2, prompt="a two"))
    assert first == len(measured) == 3  # encode, one kind of step, decode


def test_a_phase_that_fails_is_measured_again() -> None:
    engine = Engine(device="cpu")
    resident = engine.load("digits")
    phase = Phase(name="step", form=Form(loop="denoise", width=8, height=8, frames=1))
    with pytest.raises(ValueError, match="failed"), resident.phase(phase):
        raise ValueError("failed")
    assert resident.peaks.of(phase) is None
    with resident.phase(phase):
        pass
    assert resident.peaks.of(phase) is not None


def test_a_phase_that_takes_another_way_is_measured_again() -> None:
    resident = Engine(device="cpu").load("digits")
    phase = Phase(name="encode", form=Form(loop="denoise", width=8, height=8, frames=1))
    with resident.phase(phase):
        resident.component("decoder")
    with resident.phase(phase):
        resident.component("transformer")
    assert resident.peaks.of(phase) is None


def test_forms_do_not_pile_up() -> None:
    peaks = Peaks()
    need = Need(activations_bytes=1, kept_bytes=0, components_bytes=0, used=frozenset())
    for width in range(1000):
        peaks.remember(Phase(name=DECODE, form=Form(loop="l", width=width, height=1, frames=1)), need)
    assert len(peaks._needs) == 256
    assert peaks.of_form(Form(loop="l", width=999, height=1, frames=1)) == (need,)


def test_a_form_is_known_when_a_request_of_it_was_measured_to_its_end() -> None:
    engine = Engine(device="cpu")
    resident = engine.load("digits")
    spec, arguments = resolve(resident.card, REQUESTS["digits"])
    stream = engine.stream("digits", REQUESTS["digits"])
    while not isinstance(next(stream), StepFinished):
        pass
    form = form_of(spec, arguments)
    assert len(resident.peaks.of_form(form)) == 2
    assert not resident.peaks.knows(form)
    list(stream)
    assert len(resident.peaks.of_form(form)) == 3
    assert resident.peaks.knows(form)


class TestMeter:
    def test_the_most_at_one_time_counts_and_what_is_kept(self) -> None:
        given = torch.zeros(1000)
        with StorageMeter(CPU) as meter:
            one = given + 1
            two = one + 1
            del one
            three = two[:10]
            del two
            peak, kept = meter.peak_bytes, meter.kept_bytes
        assert (peak, kept) == (8000, 4000)
        assert three.shape == (10,)

    def test_views_and_writes_in_place_allocate_nothing(self) -> None:
        given = torch.zeros(1000)
        with StorageMeter(CPU) as meter:
            given.view(10, 100).t().add_(1)
        assert meter.peak_bytes == 0

    def test_what_is_loaded_meanwhile_is_left_out(self) -> None:
        with StorageMeter(CPU) as meter:
            with meter.aside():
                loaded = torch.ones(1000)
            used = loaded[:5] + 1
        assert meter.peak_bytes == 20
        assert used.shape == (5,)


@dataclass
class Allocator:
    """What torch tells of a GPU's memory, without the GPU."""

    now: int = 0
    highest: int = 0

    def allocate(self, size_bytes: int) -> None:
        self.now += size_bytes
        self.highest = max(self.highest, self.now)

    def reset(self, device: torch.device) -> None:
        self.highest = self.now


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    made = Allocator(now=1000, highest=9000)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: made.now)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: made.highest)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", made.reset)
    return made


class TestAllocatorMeter:
    """Its arithmetic; that a GPU's allocator counts as it says is not tested here."""

    GPU = torch.device("cuda", 0)

    def test_the_peak_is_above_what_was_there_before(self, allocator: Allocator) -> None:
        with metered(self.GPU) as meter:
            allocator.allocate(500)
            allocator.allocate(-300)
        assert (meter.peak_bytes, meter.kept_bytes) == (500, 200)

    def test_a_component_that_comes_meanwhile_is_left_out(self, allocator: Allocator) -> None:
        with metered(self.GPU) as meter:
            allocator.allocate(500)
            with meter.aside():
                allocator.allocate(-400)
                allocator.allocate(5000)
                allocator.allocate(-1000)
            allocator.allocate(300)
        assert (meter.peak_bytes, meter.kept_bytes) == (800, 800)

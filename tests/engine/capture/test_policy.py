"""Who may ask for captures and what they hear: engines, loops, requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.driving import looped
from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.engine.capture import choice
from restrike.engine.capture.capturer import Capturer
from restrike.engine.capture.choice import choose
from restrike.engine.capture.limits import CaptureLimits
from restrike.engine.capture.tape import TapeBackend
from restrike.engine.engine import Engine
from restrike.engine.extensions import ForwardCall
from restrike.errors import Refused, Unknown
from restrike.loops.denoise import DenoiseLoop
from restrike.models.digits.card import CARD

from .lab import ALWAYS

SEVEN = Request(prompt="a seven", seed=7)
CPU = torch.device("cpu")


def test_a_cpu_has_no_backend_that_pays_and_says_so() -> None:
    made = Engine(device="cpu").generate("digits", SEVEN)
    assert made.capture.backend is None
    assert made.capture.eager_breaks == {"no backend that pays on cpu": 8}
    assert made.notices == ()


def test_captures_are_off_when_asked_to_be() -> None:
    engine = Engine(device="cpu", capture="off")
    assert engine.generate("digits", SEVEN).capture.eager_breaks == {"off": 8}
    assert engine.load("digits").capturer.explain() == ("capture: off",)


def test_an_unknown_way_is_named() -> None:
    with pytest.raises(Unknown, match=r"unknown capture 'tap', did you mean 'tape'\?.*auto, cuda, off, tape"):
        Engine(device="cpu", capture="tap")


def test_a_backend_that_cannot_run_here_is_refused_with_what_can() -> None:
    with pytest.raises(Refused, match="capture 'cuda' cannot run on cpu; auto, off and tape can"):
        Engine(device="cpu", capture="cuda").load("digits")


def test_auto_is_cuda_graphs_on_nvidia(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "CudaBackend", lambda device: f"graphs on {device}")
    assert choose("auto", torch.device("cuda", 1)).backend == "graphs on cuda:1"
    assert not choose("auto", torch.device("cuda", 1)).named
    assert choose("cuda", torch.device("cuda", 1)).named
    monkeypatch.setattr(torch.version, "hip", "6.0")
    assert choose("auto", torch.device("cuda", 1)).absent == "no backend that pays on cuda"


def with_capture(capture: str, build: Callable[[DenoiseLoop], Any] = lambda loop: loop) -> ModelCard:
    """The digits card with a policy."""
    card = looped(build, name="policed")
    return replace(card, loops=(replace(card.loops[0], capture=capture),))


def tape(limits: CaptureLimits = ALWAYS) -> Capturer:
    return Capturer(TapeBackend(CPU), limits, named=True)


def capturing(card: ModelCard, limits: CaptureLimits = ALWAYS, **options: Any) -> Engine:
    engine = Engine(device="cpu", capture="tape", **options)
    engine.load(card).capturer = tape(limits)
    return engine


def test_a_loop_that_declares_so_is_never_captured() -> None:
    card = with_capture("off")
    made = capturing(card).generate(card, SEVEN)
    assert made.capture.eager_breaks == {"off: the loop says so": 8}
    assert made.notices[-1] == "capture tape answered 0 of 8 steps; eager: off: the loop says so (8)"


def test_a_loop_that_requires_captures_is_served_where_they_are_armed() -> None:
    card = with_capture("required")
    made = capturing(card).generate(card, SEVEN)
    assert made.capture.replays == 5
    assert made.notices == ()


REQUIRED = "card 'policed' must be captured in loop 'denoise', and cannot be: "


@pytest.mark.parametrize(
    ("mode", "reason"), [("off", "off"), ("auto", "no backend that pays on cpu")], ids=["off", "auto"]
)
def test_a_loop_that_requires_captures_is_refused_where_there_are_none(mode: str, reason: str) -> None:
    with pytest.raises(Refused, match=REQUIRED + reason):
        Engine(device="cpu", capture=mode).stream(with_capture("required"), SEVEN)


def test_a_loop_that_requires_captures_is_refused_where_they_do_not_pay() -> None:
    card = with_capture("required")
    with pytest.raises(Refused, match=REQUIRED + "disarmed: not faster"):
        capturing(card, CaptureLimits(min_speedup=1e9)).generate(card, SEVEN)


@dataclass(frozen=True)
class Doubling:
    """Answers in place of the model, with what the model says."""

    name: str = "echo"
    alters: bool = False

    def begin(self) -> None:
        return None

    def intercept(self, memory: None, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        return forward() * 2


def test_a_loop_that_requires_captures_is_refused_under_an_interceptor() -> None:
    card = with_capture("required")
    with pytest.raises(Refused, match=REQUIRED + "overridden by interceptor: echo"):
        capturing(card, extensions=(Doubling(),)).generate(card, SEVEN)


def test_an_override_reaches_the_step_and_breaks() -> None:
    card = with_capture("auto")
    made = capturing(card, extensions=(Doubling(),)).generate(card, SEVEN)
    assert made.capture.eager_breaks == {"overridden by interceptor: echo": 8}
    want = Engine(device="cpu", extensions=(Doubling(),)).generate(card, SEVEN)
    plain = Engine(device="cpu").generate(card, SEVEN)
    assert torch.equal(made.picture.latent, want.picture.latent)  # pyright: ignore[reportArgumentType]
    assert not torch.equal(made.picture.latent, plain.picture.latent)  # pyright: ignore[reportArgumentType]


@dataclass
class Undecided:
    """The digits loop, whose every second step draws on the host, as it says."""

    inner: DenoiseLoop

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def next(self, state: Any) -> Any:
        plan = self.inner.next(state)
        return plan and replace(plan, capturable=plan.index % 2 == 0)


def test_steps_that_are_not_capturable_break_among_those_that_are() -> None:
    card = with_capture("auto", Undecided)
    made = capturing(card).generate(card, replace(SEVEN, steps=12))
    assert made.capture.replays == 3
    assert made.capture.eager_breaks["not capturable: the step says so"] == 6
    want = Engine(device="cpu").generate("digits", replace(SEVEN, steps=12))
    assert torch.equal(made.picture.latent, want.picture.latent)  # pyright: ignore[reportArgumentType]


def test_what_was_asked_for_by_name_and_did_not_engage_is_told() -> None:
    engine = capturing(CARD, CaptureLimits(min_speedup=1e9))
    made = engine.generate("digits", SEVEN)
    (notice,) = made.notices
    assert notice.startswith(
        "capture tape answered 0 of 8 steps; eager: warming (1), proving (1), disarmed: "
    )
    short = capturing(CARD).generate("digits", replace(SEVEN, steps=3))
    assert short.notices == ("capture tape answered 0 of 3 steps; eager: warming (1), proving (2)",)


def test_a_request_looks_a_step_that_does_not_pay_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = capturing(CARD, CaptureLimits(min_speedup=1e9))
    engine.generate("digits", SEVEN)
    looked: list[object] = []
    run = Capturer.run

    def looking(capturer: Capturer, *given: Any) -> Any:
        looked.append(given)
        return run(capturer, *given)

    monkeypatch.setattr(Capturer, "run", looking)
    made = engine.generate("digits", SEVEN)
    (reason,) = made.capture.eager_breaks
    assert reason.startswith("disarmed: not faster")
    assert (made.capture.eager_breaks[reason], len(looked)) == (8, 1)
    # The control: what may pay is looked up at each step.
    looked.clear()
    capturing(CARD).generate("digits", SEVEN)
    assert len(looked) == 8


def test_the_graphs_of_a_card_outlive_its_requests_and_are_shared_by_them() -> None:
    engine = capturing(CARD)
    first, second = (engine.generate("digits", replace(SEVEN, seed=seed)) for seed in (1, 2))
    assert (first.capture.replays, second.capture.replays) == (5, 8)
    assert second.capture.eager_breaks == {}
    assert second.capture.backend == "tape"
    assert (second.capture.graphs, second.capture.graph_bytes > 0) == (1, True)


def test_sleep_and_wake_let_the_graphs_go() -> None:
    engine = capturing(CARD)
    resident = engine.load("digits")
    want = engine.generate("digits", SEVEN)
    resident.sleep("transformer")
    assert resident.capturer.counters.graphs == 0
    assert sum(resident.capturer.counters.evictions.values()) == 1
    resident.wake("transformer")
    made = engine.generate("digits", SEVEN)
    assert made.capture.replays == 5
    assert torch.equal(made.picture.latent, want.picture.latent)  # pyright: ignore[reportArgumentType]


def test_weights_synced_through_the_engine_keep_the_graphs_and_are_read_by_them() -> None:
    engine, plain = capturing(CARD), Engine(device="cpu")
    before = engine.generate("digits", SEVEN)
    weights = engine.load("digits").component("transformer").state_dict()
    fresh = {name: value * 1.25 for name, value in weights.items()}
    for each in (engine, plain):
        each.sync("digits", "transformer", fresh, 1)
    after, want = engine.generate("digits", SEVEN), plain.generate("digits", SEVEN)
    assert torch.equal(after.picture.latent, want.picture.latent)  # pyright: ignore[reportArgumentType]
    assert not torch.equal(after.picture.latent, before.picture.latent)  # pyright: ignore[reportArgumentType]
    assert after.capture.replays == 8
    assert engine.load("digits").capturer.counters.evictions == {}


def test_a_component_that_is_loaded_anew_has_new_graphs() -> None:
    """Two cards in room for one: each is evicted for the other, and its graphs with it."""
    engine = capturing(CARD)
    other = replace(CARD, name="another")
    want = engine.generate("digits", SEVEN)
    engine.load(other).capturer = tape()
    engine.load("digits").sleep()
    engine.generate(other, SEVEN)
    engine.load("digits").wake()
    made = engine.generate("digits", SEVEN)
    assert torch.equal(made.picture.latent, want.picture.latent)  # pyright: ignore[reportArgumentType]
    assert made.capture.eager_breaks == {"warming": 1, "proving": 2}

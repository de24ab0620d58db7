"""Whole pictures and clips under capture are those of eager, bit for bit, alone and side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine.driving import bytes_of
from engine.test_interleave import SCENARIOS
from restrike.cards.request import Request
from restrike.engine.builtin import NonFinite, ResidualSkip, StepTimes
from restrike.engine.capture.capturer import Capturer
from restrike.engine.capture.tape import TapeBackend
from restrike.engine.engine import Engine
from restrike.engine.gate import contents, interleave_gate

from .lab import ALWAYS


def capturing(**options: object) -> Engine:
    """An engine that arms every graph that was proved."""
    engine = Engine(device="cpu", capture="tape", **options)  # pyright: ignore[reportArgumentType]
    for card in ("digits", "shapes"):
        engine.load(card).capturer = Capturer(TapeBackend(torch.device("cpu")), ALWAYS, named=True)
    return engine


def replays(engine: Engine, card: str = "digits") -> int:
    return engine.load(card).capturer.counters.replays


@pytest.mark.parametrize("name", SCENARIOS)
def test_pictures_under_capture_are_those_of_eager(engine: Engine, name: str) -> None:
    captured = capturing()
    for request in SCENARIOS[name]:
        alone = bytes_of(engine, request)
        assert [bytes_of(captured, request) for _ in range(3)] == [alone] * 3
    assert replays(captured) > 0


@pytest.mark.parametrize("name", ["euler", "sde", "unipc", "mixed"])
def test_requests_side_by_side_never_see_each_other(engine: Engine, name: str) -> None:
    captured = capturing()
    for request in SCENARIOS[name]:
        captured.generate("digits", request)
    report = interleave_gate(captured, "digits", SCENARIOS[name])
    assert report.holds, report.differing
    assert replays(captured) > 0
    alone = [bytes_of(engine, request) for request in SCENARIOS[name]]
    assert [bytes_of(captured, request) for request in SCENARIOS[name]] == alone


CLIP = Request(prompt="a red circle moving left", seed=3, steps=5, frames=5, guidance_mode="batched")


@pytest.mark.parametrize("solver", ["euler", "unipc", "sde"])
def test_a_clip_under_capture_is_that_of_eager(solver: str) -> None:
    request, plain, captured = replace(CLIP, solver=solver), Engine(device="cpu"), capturing()
    want = bytes_of(plain, request, "shapes")
    assert bytes_of(captured, request, "shapes") == want
    made = captured.generate("shapes", request)
    assert str(contents(made)[0]) == want[0]
    assert len(made.picture.log_probs) == (4 if solver == "sde" else 0)
    assert made.capture.replays >= 1


def test_runs_of_four_and_of_eight_steps_share_one_graph(engine: Engine) -> None:
    captured = capturing()
    four, eight = (Request(prompt="a 3", seed=5, steps=steps, guidance=1.0) for steps in (4, 8))
    for request in (four, eight, four):
        assert bytes_of(captured, request) == bytes_of(engine, request)
    counters = captured.load("digits").capturer.counters
    assert (counters.captures, counters.graphs, counters.replays) == (1, 1, 13)


@pytest.mark.parametrize(
    ("card", "prompts"),
    [
        ("digits", ("a 3", "please draw me a single handwritten figure of the number three")),
        ("shapes", ("a ring", "a small purple triangle quickly moving up on a grey background")),
    ],
)
def test_prompts_of_any_length_share_one_graph(card: str, prompts: tuple[str, str]) -> None:
    """Text is padded to one length, so no prompt brings a graph of its own."""
    captured = capturing()
    frames = 5 if card == "shapes" else None
    first, other = (Request(prompt=each, seed=5, steps=4, frames=frames) for each in prompts)
    captured.generate(card, first)
    made = captured.generate(card, other)
    assert (made.capture.graphs, made.capture.replays, made.capture.eager_breaks) == (1, 4, {})
    assert len(captured.load(card).capturer.explain()) == 1


def test_another_scale_shift_or_seed_needs_no_other_graph(engine: Engine) -> None:
    captured = capturing()
    requests = [
        Request(prompt=f"a {digit}", seed=digit, guidance=1.5 + digit, shift=1.0 + digit)
        for digit in range(4)
    ]
    for request in requests:
        assert bytes_of(captured, request) == bytes_of(engine, request)
    assert captured.load("digits").capturer.counters.captures == 1


def test_steps_of_several_requests_as_one_are_captured_by_their_number(engine: Engine) -> None:
    batched = capturing(batch_limit=4)
    plain = Engine(device="cpu", batch_limit=4)
    requests = [("digits", Request(prompt=f"a {digit}", seed=digit)) for digit in range(4)]
    for count in (4, 2, 4):
        made = [outcome.result() for outcome in batched.generate_interleaved(requests[:count])]
        want = [outcome.result() for outcome in plain.generate_interleaved(requests[:count])]
        for mine, theirs in zip(made, want, strict=True):
            assert torch.equal(mine.picture.latent, theirs.picture.latent)  # pyright: ignore[reportArgumentType]
            assert mine.capture.replays + sum(mine.capture.eager_breaks.values()) == 8
    counters = batched.load("digits").capturer.counters
    assert counters.captures == 2
    assert counters.replays == 5 + 5 + 8


def test_observers_look_on_at_replays(engine: Engine) -> None:
    captured = capturing(extensions=(StepTimes(), NonFinite()))
    request = Request(prompt="a 1", seed=1)
    assert bytes_of(captured, request) == bytes_of(engine, request)
    assert replays(captured) == 5


@pytest.mark.parametrize(
    ("extension", "reason"),
    [(ResidualSkip(threshold=0.5), "step cache: residual-skip")],
)
def test_an_extension_that_answers_is_asked_at_every_step(extension: ResidualSkip, reason: str) -> None:
    captured, plain = capturing(extensions=(extension,)), Engine(device="cpu", extensions=(extension,))
    request = Request(prompt="a 1", seed=1)
    assert bytes_of(captured, request) == bytes_of(plain, request)
    made = captured.generate("digits", request)
    assert made.capture.eager_breaks == {reason: 8}
    assert made.notices[-1] == f"capture tape answered 0 of 8 steps; eager: {reason} (8)"

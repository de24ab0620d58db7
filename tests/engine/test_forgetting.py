"""What belongs to one request is gone when it ends, however it ends and whatever answered its steps."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from restrike.cards.request import Request
from restrike.engine.builtin import ResidualSkip
from restrike.engine.capture.capturer import Capturer
from restrike.engine.capture.tape import TapeBackend
from restrike.engine.engine import Engine
from restrike.engine.requests import Cancellation, StreamOptions
from restrike.errors import RestrikeError
from restrike.loops.denoise import DenoiseState

from .capture.lab import ALWAYS
from .driving import WatchedLoop, looped

REQUEST = Request(prompt="a 3", steps=4, guidance_mode="cfg", items=(0, 1))
ENGINES: dict[str, dict[str, Any]] = {
    "eager": {},
    "captured": {"capture": "tape"},
    "as one": {"batch_limit": 2},
    "step cache": {"extensions": (ResidualSkip(threshold=0.2),)},
}
Seen = list[weakref.ref[Any]]


def nothing(state: DenoiseState) -> None:
    pass


def failing(state: DenoiseState) -> None:
    if state.index == 2:
        raise ValueError("broken")


def running(options: dict[str, Any], seen: Seen, hook: Callable[[DenoiseState], None]) -> Callable[..., None]:
    """Requests on one engine, of whose states and shared memories `seen` is told."""
    engine = Engine(device="cpu", **options)

    def before(state: DenoiseState) -> None:
        seen.append(weakref.ref(state))
        seen.extend(weakref.ref(each) for each in state.context.shared.values() if hasattr(each, "__dict__"))
        hook(state)

    card = looped(lambda inner: WatchedLoop(inner, Counter(), before))
    if "capture" in options:
        engine.load(card).capturer = Capturer(TapeBackend(torch.device("cpu")), ALWAYS, named=True)

    def run(seed: int, watched: StreamOptions | None = None) -> None:
        try:
            engine.generate(card, replace(REQUEST, seed=seed), watched)
        except RestrikeError as error:
            error.__traceback__ = error.__cause__ = None

    return run


@pytest.mark.parametrize("way", ENGINES)
def test_nothing_of_it_is_left_after_many(way: str) -> None:
    seen: Seen = []
    run = running(ENGINES[way], seen, nothing)
    for seed in range(3):
        run(seed)
    gc.collect()
    assert len(seen) >= 3 * 2 * 4
    assert not [each for each in seen if each() is not None]


@pytest.mark.parametrize("way", ENGINES)
def test_nor_after_a_failure(way: str) -> None:
    seen: Seen = []
    run = running(ENGINES[way], seen, failing)
    for seed in range(2):
        run(seed)
    gc.collect()
    assert seen
    assert not [each for each in seen if each() is not None]


def test_nor_after_a_cancellation() -> None:
    seen: Seen = []
    cancellation = Cancellation()
    run = running({}, seen, lambda state: cancellation.cancel())
    run(1, StreamOptions(cancellation=cancellation))
    gc.collect()
    assert seen
    assert not [each for each in seen if each() is not None]


def test_a_state_that_something_keeps_would_be_seen() -> None:
    seen: Seen = []
    kept: list[DenoiseState] = []
    run = running({}, seen, kept.append)
    run(1)
    gc.collect()
    assert [each for each in seen if each() is not None]

"""Where a card is put: its own devices and precisions, never another in silence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from restrike.cards.card import Component, ModelCard
from restrike.cards.checkpoint import Checkpoint
from restrike.cards.placement import Placement
from restrike.cards.request import Request
from restrike.engine import devices
from restrike.engine.devices import placement_for
from restrike.engine.engine import Engine
from restrike.errors import Refused, Unknown
from restrike.models.digits.card import CARD


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs, as far as torch tells."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.usefixtures("present")
@pytest.mark.parametrize(
    ("asked", "given"), [(None, "cuda:0"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1"), ("cpu", "cpu")]
)
def test_the_device_is_the_one_asked_for_or_the_best(asked: str | None, given: str) -> None:
    assert placement_for(CARD, asked) == Placement(device=given, dtype=CARD.precisions[0])


@pytest.mark.usefixtures("present")
def test_a_device_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(Unknown, match=r"unknown device 'cuda:2'.* Known: cpu, cuda:0, cuda:1"):
        placement_for(CARD, "cuda:2")


@pytest.mark.parametrize("asked", ["cuda", "cuda:0"])
def test_a_gpu_is_never_replaced_by_the_cpu(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "available", lambda: ("cpu",))
    with pytest.raises(
        Unknown, match=rf"unknown device '{asked}'.* sees no such GPU; restrike doctor says why"
    ):
        Engine(device=asked).load("digits")


def test_a_precision_that_the_card_does_not_hold_is_refused() -> None:
    with pytest.raises(Refused, match="precision 'float16': card 'digits' holds float32, bfloat16"):
        placement_for(CARD, "cpu", "float16")


@dataclass(frozen=True)
class Transformer:
    """What one platform runs in place of another's."""

    inner: Any
    platform: str

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.inner(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Half(Transformer):
    """The class for half precision."""


class Full(Transformer):
    """The class for full precision."""


def by_placement(part: Component) -> Component:
    """The component, of the class that its placement calls for."""

    def load(checkpoint: Checkpoint, placement: Placement) -> Any:
        kind = Half if placement.dtype == "bfloat16" else Full
        return kind(part.load(checkpoint, placement), placement.device)

    return replace(part, load=load) if part.name == "transformer" else part


def test_one_card_builds_what_its_placement_calls_for() -> None:
    card: ModelCard = replace(CARD, components=tuple(map(by_placement, CARD.components)))
    for precision, kind in (("float32", Full), ("bfloat16", Half)):
        engine = Engine(device="cpu", precision=precision)
        engine.generate(card, Request(prompt="a 3", seed=1, steps=1))
        built = engine.load(card).component("transformer")
        assert type(built) is kind
        assert built.platform == "cpu"

"""All at once: threads, cards, adapters, cancelled and abandoned requests, in the room of one card."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from engine.weights.loras import lora, written
from restrike.cards.adapters import Adapter
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.gate import contents
from restrike.engine.requests import Cancellation, StreamOptions
from restrike.errors import Cancelled
from restrike.keys import Digest
from restrike.models.digits.card import CARD

TRANSFORMER_BYTES = 2_174_608
CARDS = tuple(replace(CARD, name=name) for name in ("one", "two", "three"))


@pytest.fixture(scope="module")
def requests(tmp_path_factory: pytest.TempPathFactory) -> list[Request]:
    """With an adapter and without."""
    module = Engine(device="cpu").load("digits").component("transformer")
    file = written(tmp_path_factory.mktemp("loras") / "a.safetensors", lora(module, seed=1))
    asked = Request(prompt="a seven", seed=1, steps=2)
    return [asked, replace(asked, seed=2), replace(asked, adapters=(Adapter(file),))]


@pytest.fixture(scope="module")
def alone(requests: list[Request]) -> list[dict[int, Digest]]:
    engine = Engine(device="cpu")
    return [contents(engine.generate("digits", request)) for request in requests]


def test_a_card_with_adapters_makes_room_for_another_and_gets_them_back(
    requests: list[Request], alone: list[dict[int, Digest]]
) -> None:
    engine = Engine(device="cpu", memory_limit_bytes=int(1.5 * TRANSFORMER_BYTES))
    one, two, _ = CARDS
    for _ in range(2):
        assert contents(engine.generate(one, requests[2])) == alone[2]
        assert contents(engine.generate(two, requests[2])) == alone[2]
        assert contents(engine.generate(one, requests[0])) == alone[0]


def test_a_card_whose_adapters_are_in_use_does_not(requests: list[Request]) -> None:
    engine = Engine(device="cpu", memory_limit_bytes=int(1.5 * TRANSFORMER_BYTES))
    one, two, _ = CARDS
    stream = engine.stream(one, replace(requests[2], steps=4))
    for _ in range(3):
        next(stream)
    (part,) = engine.load(one).parts("transformer")
    assert part.altered
    with pytest.raises(Exception, match="whose weights no file holds"):
        engine.load(two).component("transformer")
    stream.close()
    assert engine.load(two).component("transformer")


def test_nobody_waits_for_ever_and_no_byte_changes(
    requests: list[Request], alone: list[dict[int, Digest]]
) -> None:
    engine = Engine(device="cpu", memory_limit_bytes=int(1.5 * TRANSFORMER_BYTES))

    def work(number: int) -> bool:
        chance = random.Random(number)
        card, index = chance.choice(CARDS), chance.randrange(3)
        how = chance.choice(("whole", "whole", "submitted", "abandoned", "cancelled"))
        if how == "whole":
            return contents(engine.generate(card, requests[index])) == alone[index]
        if how == "submitted":
            return contents(engine.submit(card, requests[index]).result()) == alone[index]
        cancellation = Cancellation()
        stream = engine.stream(card, requests[index], StreamOptions(cancellation=cancellation))
        for _ in range(chance.randrange(1, 5)):
            next(stream, None)
        if how == "cancelled":
            cancellation.cancel()
            assert isinstance(getattr(list(stream)[-1], "error", None), Cancelled | None)
        stream.close()
        return True

    with engine, ThreadPoolExecutor(3) as pool:
        assert all(pool.map(work, range(45)))
    (found,) = engine.memory()
    assert not found.reserved
    assert found.resident_bytes <= found.limit.size_bytes

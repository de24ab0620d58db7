"""The feature cache: a second identical prompt calls no encoder, and nothing foreign ever answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from restrike.cards.identity import AdapterIdentity, WeightIdentity
from restrike.cards.placement import Placement
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.features import FeatureCache
from restrike.keys import Unkeyable

from .driving import bytes_of, counted_forwards

WEIGHTS = WeightIdentity(component="text_encoder", base="0" * 64)
CPU = Placement(device="cpu", dtype="float32")
KILOBYTE = torch.zeros(256)


def get(cache: FeatureCache, made: Any, text: str = "a", weights: WeightIdentity = WEIGHTS) -> Any:
    return cache.get(weights, CPU, (text,), lambda: made)


def test_a_second_identical_prompt_calls_no_encoder_and_gives_the_same_bytes() -> None:
    engine = Engine(device="cpu")
    request = Request(prompt="a 3", seed=1, guidance_mode="cfg")
    with counted_forwards(engine) as calls:
        first = bytes_of(engine, request)
        assert calls["text_encoder"] == 2, "the prompt and the empty one"
        assert bytes_of(engine, request) == first
        assert calls["text_encoder"] == 2
        other = Request(prompt="a 4", seed=1, guidance_mode="cfg")
        assert bytes_of(engine, other) != first
        assert calls["text_encoder"] == 3
    assert (engine.features.counters.hits, engine.features.counters.misses) == (3, 3)
    assert bytes_of(Engine(device="cpu"), request) == first


def test_a_bump_of_the_transformer_keeps_what_the_encoder_made() -> None:
    engine = Engine(device="cpu")
    request = Request(prompt="a 3", seed=1)
    old = bytes_of(engine, request)
    tensors = {
        name: value + 0.01
        for name, value in engine.load("digits").component("transformer").state_dict().items()
    }
    engine.sync("digits", "transformer", tensors, 1)
    with counted_forwards(engine) as calls:
        assert bytes_of(engine, request) != old
        assert calls["text_encoder"] == 0


def test_a_sync_of_the_encoder_drops_its_entries_and_no_others() -> None:
    engine = Engine(device="cpu")
    request = Request(prompt="a 3", seed=1)
    old = bytes_of(engine, request)
    get(engine.features, KILOBYTE, weights=WeightIdentity(component="image_encoder", base="1" * 64))
    before = engine.features.counters.entries
    module = engine.load("digits").component("text_encoder")
    tensors = {name: value + 0.5 for name, value in module.state_dict().items()}
    engine.sync("digits", "text_encoder", tensors, 1)
    assert before > 1
    assert engine.features.counters.entries == 1
    with counted_forwards(engine) as calls:
        assert bytes_of(engine, request) != old
        assert calls["text_encoder"] > 0


def test_two_stacks_of_adapters_never_share_a_feature(tmp_path: Path) -> None:
    first = AdapterIdentity(digest="1" * 64, strength=1.0)
    stacks = [
        (),
        (first,),
        (AdapterIdentity(digest="1" * 64, strength=0.5),),
        (AdapterIdentity(digest="2" * 64, strength=1.0),),
        (first, AdapterIdentity(digest="2" * 64, strength=1.0)),
        (AdapterIdentity(digest="2" * 64, strength=1.0), first),
        (AdapterIdentity(digest="1" * 64, strength=1.0, component="text_encoder"),),
    ]
    cache = FeatureCache()
    for number, stack in enumerate(stacks):
        weights = WeightIdentity(component="text_encoder", base="0" * 64, adapters=stack)
        assert get(cache, torch.tensor(number), weights=weights) == number
    assert cache.counters.hits == 0


@pytest.mark.parametrize(
    ("weights", "placement", "parts"),
    [
        (WeightIdentity(component="image_encoder", base="0" * 64), CPU, ("a",)),
        (WeightIdentity(component="text_encoder", base="1" * 64), CPU, ("a",)),
        (WeightIdentity(component="text_encoder", base="0" * 64, version=1), CPU, ("a",)),
        (WEIGHTS, Placement(device="cpu", dtype="bfloat16"), ("a",)),
        (WEIGHTS, Placement(device="meta", dtype="float32"), ("a",)),
        (WEIGHTS, CPU, ("b",)),
        (WEIGHTS, CPU, ("a", 512)),
        (WEIGHTS, CPU, (torch.tensor([1]),)),
    ],
)
def test_any_part_that_differs_misses(
    weights: WeightIdentity, placement: Placement, parts: tuple[Any, ...]
) -> None:
    cache = FeatureCache()
    get(cache, torch.tensor(1))
    assert get(cache, torch.tensor(5)) == 1
    made = cache.get(weights, placement, parts, lambda: torch.tensor(2))
    assert made.is_meta or made == 2
    assert (cache.counters.hits, cache.counters.misses) == (1, 2)


def test_two_large_tensors_that_differ_in_one_element_in_the_middle_are_two_keys() -> None:
    cache = FeatureCache()
    large = torch.zeros(1 << 20)
    other = large.clone()
    other[1 << 19] = 1e-30
    assert cache.get(WEIGHTS, CPU, (large,), lambda: torch.tensor(1)) == 1
    assert cache.get(WEIGHTS, CPU, (other,), lambda: torch.tensor(2)) == 2
    assert cache.get(WEIGHTS, CPU, (large.clone(),), lambda: torch.tensor(3)) == 1


def test_what_cannot_be_keyed_is_refused_by_its_place() -> None:
    with pytest.raises(Unkeyable, match="parts"):
        FeatureCache().get(WEIGHTS, CPU, (object(),), lambda: torch.tensor(1))


def test_a_caller_cannot_corrupt_what_is_kept() -> None:
    cache = FeatureCache()
    made = {"text": torch.ones(3), "pair": (torch.ones(2), [torch.ones(1)])}
    first = get(cache, made)
    for tensor in (first["text"], first["pair"][0], first["pair"][1][0]):
        tensor.zero_()
    second = get(cache, None)
    assert torch.equal(second["text"], torch.ones(3))
    second["text"].zero_()
    second["pair"][1].append("more")
    third = get(cache, None)
    assert torch.equal(third["text"], torch.ones(3))
    assert len(third["pair"][1]) == 1
    made["text"].zero_()  # nor can whoever made it
    assert torch.equal(get(cache, None)["text"], torch.ones(3))


@pytest.mark.parametrize(
    "value",
    [
        KILOBYTE,
        {"text": KILOBYTE[:128], "mask": KILOBYTE[:128]},
        (KILOBYTE[:64], {"deep": [KILOBYTE[:192]]}),
    ],
    ids=["tensor", "dictionary", "tuple"],
)
def test_the_budget_holds_and_the_least_recently_used_leaves(value: Any) -> None:
    cache = FeatureCache(limit_bytes=3 * 1024)
    for text in "abc":
        get(cache, value, text)
    get(cache, None, "a")
    get(cache, value, "d")
    assert (cache.counters.entries, cache.counters.bytes, cache.counters.evictions) == (3, 3 * 1024, 1)
    before = cache.counters.hits
    for text in "acd":
        get(cache, None, text)
    assert cache.counters.hits == before + 3
    assert get(cache, "made anew", "b") == "made anew"


def test_what_is_larger_than_the_budget_is_handed_through() -> None:
    cache = FeatureCache(limit_bytes=1000)
    get(cache, KILOBYTE[:4], "small")
    assert torch.equal(get(cache, KILOBYTE), KILOBYTE)
    assert (cache.counters.entries, cache.counters.bytes, cache.counters.evictions) == (1, 16, 0)


def test_what_was_made_twice_at_once_is_counted_once() -> None:
    cache = FeatureCache()
    assert cache.get(WEIGHTS, CPU, ("a",), lambda: get(cache, KILOBYTE)) is not None
    assert (cache.counters.entries, cache.counters.bytes) == (1, 1024)


def test_old_weights_take_what_was_made_under_their_adapters_along() -> None:
    cache = FeatureCache()
    adapted = replace(WEIGHTS, adapters=(AdapterIdentity(digest="1" * 64, strength=1.0),))
    newer, other = replace(WEIGHTS, version=1), replace(WEIGHTS, component="image_encoder")
    for weights in (WEIGHTS, adapted, newer, other):
        get(cache, KILOBYTE, weights=weights)
    cache.invalidate(WEIGHTS)
    assert (cache.counters.entries, cache.counters.bytes) == (2, 2048)
    assert [get(cache, "anew", weights=each) for each in (WEIGHTS, adapted)] == ["anew"] * 2
    assert all(torch.equal(get(cache, "anew", weights=each), KILOBYTE) for each in (newer, other))


def test_a_view_keeps_only_its_own_elements() -> None:
    cache = FeatureCache()
    get(cache, torch.zeros(1 << 20)[:4])
    (entry,) = cache._entries.values()
    assert entry.value.untyped_storage().nbytes() == cache.counters.bytes == 16


def test_what_an_encoder_cannot_make_is_not_kept() -> None:
    cache = FeatureCache()

    def fail() -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get(WEIGHTS, CPU, ("a",), fail)
    assert cache.counters.entries == 0
    assert get(cache, torch.tensor(1)) == 1


@pytest.mark.parametrize("limit_bytes", [4096, 16], ids=["kept", "too large"])
@pytest.mark.parametrize(
    "made",
    [KILOBYTE[:4].expand(3, 4), KILOBYTE.reshape(16, 16)[:, ::2], KILOBYTE[:12].reshape(3, 4).t()],
    ids=["repeated", "sliced", "transposed"],
)
def test_what_is_new_is_laid_out_as_what_was_kept(made: Tensor, limit_bytes: int) -> None:
    cache = FeatureCache(limit_bytes=limit_bytes)
    first, second = get(cache, {"text": made}), get(cache, {"text": made})
    assert first["text"].stride() == second["text"].stride()
    assert torch.equal(first["text"], made)
    first["text"].add_(1)
    assert torch.equal(get(cache, {"text": made})["text"], second["text"])

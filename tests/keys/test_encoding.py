"""The algebra: distinct values have distinct encodings, equal ones have one, and the bytes never change."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import cbor2
import numpy as np
import pytest
import torch
from cbor2 import CBORTag
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from restrike.errors import Refused
from restrike.keys import ArrayContent, Digest, Record, Ref
from restrike.keys.encoding import decode, encode

from . import reference
from .oracle import CONFUSABLE, Adapter, arrays, elements, names, pairs, same, tensors, values

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def weak_json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False).encode("utf-8", "replace")


def plain_cbor(value: Any) -> bytes:
    return cbor2.dumps(value, canonical=True, default=lambda encoder, value: encoder.encode(str(value)))


def untyped_arrays(value: Any) -> bytes:
    return elements(value) if isinstance(value, (np.ndarray, torch.Tensor)) else encode(value)


def unsorted(value: Any) -> bytes:
    return repr(list(value.items()) if isinstance(value, dict) else value).encode()


def confusion(encoder: Callable[[Any], bytes], pairs: st.SearchStrategy[Any], examples: int) -> Any:
    """A pair that the encoder takes for one value although they differ, or for two although they do not."""
    thorough = settings(
        relaxed, max_examples=examples, database=None, derandomize=True, phases=[Phase.generate]
    )
    try:
        return find(
            pairs, lambda pair: (encoder(pair[0]) == encoder(pair[1])) != same(*pair), settings=thorough
        )
    except NoSuchExample:
        return None


array_pairs = st.tuples(arrays, arrays) | st.tuples(tensors, tensors) | st.tuples(arrays, tensors)
shuffled = st.dictionaries(names, values, max_size=5).flatmap(
    lambda d: st.permutations(list(d.items())).map(lambda items: (d, dict(items)))
)


@pytest.mark.parametrize(
    ("pairs", "examples"),
    [(pairs(), 1000), (array_pairs, 600), (shuffled, 200)],
    ids=["values", "arrays", "order"],
)
def test_distinct_values_never_share_an_encoding_and_equal_ones_always_do(pairs: Any, examples: int) -> None:
    assert confusion(encode, pairs, examples) is None


@pytest.mark.parametrize(
    ("weak", "pairs"),
    [(weak_json, pairs()), (plain_cbor, pairs()), (untyped_arrays, array_pairs), (unsorted, shuffled)],
)
def test_a_weak_encoder_fails_the_same_property(weak: Callable[[Any], bytes], pairs: Any) -> None:
    assert confusion(weak, pairs, examples=1500) is not None


def test_all_confusable_values_are_distinct() -> None:
    for a, b in itertools.combinations(CONFUSABLE, 2):
        assert encode(a) != encode(b), (a, b)


def test_one_is_seven_things() -> None:
    one = Ref(Digest("1" * 64))
    ones = [
        1,
        True,
        1.0,
        "1",
        b"1",
        [1],
        (1,),
        {"1": 1},
        one,
        [one],
        np.array(1),
        np.array(1.0),
        torch.tensor(1),
    ]
    assert len(set(map(encode, ones))) == len(ones)


def lowered(value: Any) -> Any:
    """What the typed values become, said here a second time."""
    if isinstance(value, dict):
        return {name: lowered(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [lowered(item) for item in value]
    if isinstance(value, tuple):
        return CBORTag(0x52535401, [lowered(item) for item in value])
    return value


plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(plain)
@settings(relaxed, max_examples=150)
def test_the_bytes_are_those_of_the_standard(value: Any) -> None:
    assert encode(value) == reference.write(lowered(value))


@given(
    st.floats(allow_nan=False, width=16) | st.floats(allow_nan=False, width=32) | st.floats(allow_nan=False)
)
@relaxed
def test_floats_take_their_shortest_exact_form(value: float) -> None:
    assert encode(value) == reference.write(value)
    assert same(decode(encode(value)), value)


@given(
    st.integers(-70, 70).flatmap(
        lambda bits: st.integers(-2, 2).map(lambda d: (-1) ** bits * 2 ** abs(bits) + d)
    )
)
@relaxed
def test_integers_at_every_boundary(value: int) -> None:
    assert encode(value) == reference.write(value)
    assert decode(encode(value)) == value


@given(values)
@settings(relaxed, max_examples=300)
def test_what_is_decoded_encodes_to_the_same_bytes(value: Any) -> None:
    assert encode(decode(encode(value))) == encode(value)


@given(plain)
@relaxed
def test_plain_values_come_back_whole(value: Any) -> None:
    assert same(decode(encode(value)), value)


def test_typed_values_come_back_as_what_was_keyed() -> None:
    value = [Adapter(strength=(1,)), np.zeros((2, 3), "<f4"), Ref(Digest("a" * 64), of="file")]
    record, content, ref = decode(encode(value))  # pyright: ignore[reportGeneralTypeIssues]
    assert record == Record("adapter", {"strength": (1,)})
    assert isinstance(content, ArrayContent)
    assert (content.library, content.dtype, content.shape) == ("numpy", "<f4", (2, 3))
    assert ref == value[2]


@pytest.mark.parametrize(
    "torn",
    [
        b"",
        encode([1, 2])[:-1],
        encode([1, 2]) + b"\0",
        b"\x18\x01",  # 1 in two bytes
        b"\xfb\x3f\xf0" + bytes(6),  # 1.0 in nine
        b"\xa2\x61b\x01\x61a\x02",  # names out of order
        b"\xa2\x61a\x01\x61a\x02",  # a name twice
        b"\xa1\x01\x01",  # a name that is no text
        b"\x9f\x01\xff",  # an open-ended list
        b"\xf9\x7e\x00",  # NaN
        b"\xf7",  # undefined
        b"\xc1\x01",  # a date
        b"\xd9\x01\x02\x81\x01",  # a set
        b"\x62\xff\xff",  # no UTF-8
        b"\x81" * 5000 + b"\x01",
        b"\x81" * 80 + b"\x01",
        cbor2.dumps(CBORTag(0x52535402, ["elsewhere", bytes(32)])),
        cbor2.dumps(CBORTag(0x52535402, ["file", bytes(31)])),
        cbor2.dumps(CBORTag(0x52535401, 5)),
        cbor2.dumps(CBORTag(0x52535405, [])),
    ],
)
def test_what_is_not_canonical_is_refused(torn: bytes) -> None:
    with pytest.raises(Refused, match=r"^not an encoded key: "):
        decode(torn)


def test_a_key_of_unreasonable_size_is_not_even_read() -> None:
    with pytest.raises(Refused, match="at most"):
        decode(bytes(5 * 2**20))


def test_shared_values_are_not_cycles() -> None:
    shared = [1]
    assert encode([shared, shared, {"a": shared}]) == encode([[1], [1], {"a": [1]}])

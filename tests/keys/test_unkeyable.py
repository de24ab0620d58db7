"""What cannot be keyed is refused, and the refusal names its place in the user's own value."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import pathlib
import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from restrike.errors import Refused
from restrike.keys import Digest, Key, Unkeyable, digest
from restrike.keys.encoding import MAX_DEPTH, MAX_SIZE_BYTES
from restrike.keys.unkeyable import dotted

from .oracle import Adapter, places, replaced, values


class Size(enum.IntEnum):
    SMALL = 1


class Mode(enum.StrEnum):
    FAST = "fast"


class Text(str):
    __slots__ = ()


class Inherited(Adapter):
    pass


@dataclass(frozen=True)
class Nameless:
    x: int


@dataclass
class Thawed:
    key_name: ClassVar[str] = "thawed"
    x: int = 0


Pair = collections.namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "NaN"),
        (np.float32("nan"), "NaN"),
        (np.complex64(complex(0, float("nan"))), "NaN"),
        (pathlib.Path("model.safetensors"), "location"),
        (pathlib.PurePosixPath("/x"), "location"),
        ("\ud800", "surrogate"),
        (Size.SMALL, r"\.value"),
        (Mode.FAST, r"\.value"),
        (Text("x"), "not plain str"),
        (Pair(1, 2), "not plain tuple"),
        (torch.Size([1]), "not plain tuple"),
        (collections.OrderedDict(a=1), "not plain dict"),
        ({1, 2}, "set"),
        (frozenset(), "set"),
        ({1: "a"}, "plain strings, not by int 1"),
        ({Text("a"): 1}, "plain strings"),
        ({"a": 1, None: 2}, "plain strings, not by NoneType None"),
        (Digest("0" * 64), "Ref"),
        (bytearray(b"x"), "bytearray cannot be keyed"),
        (memoryview(b"x"), "memoryview cannot be keyed"),
        (datetime.date(2026, 1, 1), "date cannot be keyed"),
        (decimal.Decimal(1), "Decimal cannot be keyed"),
        (1j, "complex cannot be keyed"),
        (print, "cannot be keyed"),
        (object(), "object cannot be keyed"),
        (Adapter, "cannot be keyed"),
        (torch.float32, "cannot be keyed"),
        (torch.device("cpu"), "cannot be keyed"),
        (Key("step", "1", {}), "key_name"),
        (Nameless(1), "key_name"),
        (Thawed(), "frozen"),
        (Inherited(strength=1), "key_name"),
        (np.array([object()]), "dtype"),
        (np.array(["a"]), "dtype"),
        (np.str_("a"), "dtype"),
        (np.array([1], np.longdouble), "dtype"),
        (np.array([(1, 2)], [("a", "u1"), ("b", "<u4")]), "dtype"),
        (np.array(["2026-01-01"], "datetime64[D]"), "dtype"),
        (np.ma.masked_array([1], [True]), "plain numpy.ndarray"),
        (torch.empty(1, device="meta"), "meta"),
        (torch.eye(2).to_sparse(), "layout"),
        (torch.empty(1, dtype=torch.bits8), "dtype"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_is_refused_with_its_place(value: Any, reason: str) -> None:
    with pytest.raises(Unkeyable, match=reason) as caught:
        Key("step", "1", {"seed": 1, "arguments": {"prompt": ["a", "b", ("c", {"x": value})]}})
    assert caught.value.path == "arguments.prompt[2][1].x"
    assert str(caught.value).startswith("arguments.prompt[2][1].x: ")
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, Refused)


@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
def test_a_quantized_tensor_is_more_than_its_bytes() -> None:
    with pytest.raises(Unkeyable, match="dequantize"):
        digest("value", "1", torch.quantize_per_tensor(torch.ones(1), 0.1, 0, torch.qint8))


@given(values, st.data())
@settings(deadline=None)
def test_any_place_is_named(value: Any, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(places(value)))
    with pytest.raises(Unkeyable) as caught:
        digest("value", "1", replaced(value, place, object()))
    assert caught.value.steps == ("value", *place)
    assert caught.value.path == dotted(("value", *place))


@given(st.lists(st.text() | st.integers(0, 9)), st.lists(st.text() | st.integers(0, 9)))
def test_two_places_never_share_a_text(a: list[str | int], b: list[str | int]) -> None:
    assert (dotted(a) == dotted(b)) is (a == b)


def test_a_cycle_is_named_where_it_closes() -> None:
    loop: dict[str, Any] = {"a": []}
    loop["a"].append(loop)
    with pytest.raises(Unkeyable, match=r"x\.a\[0\]: the value contains itself"):
        Key("step", "1", {"x": loop})


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_depth_has_a_limit() -> None:
    digest("value", "1", nested(MAX_DEPTH))
    with pytest.raises(Unkeyable, match=r"deep") as caught:
        digest("value", "1", nested(MAX_DEPTH + 1))
    assert caught.value.path == "value" + "[0]" * MAX_DEPTH
    with pytest.raises(Unkeyable, match="deep"):
        digest("value", "1", nested(100_000))


LARGE = ["x" * MAX_SIZE_BYTES, b"x" * MAX_SIZE_BYTES, 1 << 8 * MAX_SIZE_BYTES, [0] * (MAX_SIZE_BYTES // 9)]


@pytest.mark.parametrize("large", LARGE, ids=["text", "bytes", "integer", "list"])
def test_size_has_a_limit(large: Any) -> None:
    with pytest.raises(Unkeyable, match=r"^arguments\.a.*reference to its digest"):
        Key("step", "1", {"arguments": {"a": large}})


def test_a_bomb_of_shared_lists_stops_at_the_limit() -> None:
    bomb: list[Any] = ["lol"]
    for _ in range(40):
        bomb = [bomb] * 10
    with pytest.raises(Unkeyable, match="over"):
        digest("value", "1", bomb)


def test_large_arrays_do_not_count() -> None:
    digest("value", "1", np.zeros(2 * MAX_SIZE_BYTES, np.uint8))


def test_the_refusal_crosses_processes() -> None:
    error = Unkeyable("NaN cannot be keyed", ("arguments", 3))
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.path, str(copy)) == (error.path, str(error))

"""What the tests know of values without the encoder: when two are the same, how to make and change them."""

from __future__ import annotations

import dataclasses
import struct
import unicodedata
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from hypothesis import strategies as st

from restrike.keys import Digest, Ref


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """A dataclass that can be keyed."""

    key_name: ClassVar[str] = "adapter"
    strength: Any


@dataclass(frozen=True, kw_only=True)
class Twin:
    """The same fields under another name."""

    key_name: ClassVar[str] = "twin"
    strength: Any


def same(a: Any, b: Any) -> bool:
    """Strict equality by type and bits, written without a look at the encoding."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, (np.ndarray, torch.Tensor)):
        return a.dtype == b.dtype and a.shape == b.shape and elements(a) == elements(b)
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return a == b


def elements(array: np.ndarray | torch.Tensor) -> bytes:
    """The bytes in C order, read in another way than the encoder reads them."""
    if isinstance(array, torch.Tensor):
        copy = array.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        return bytes(copy.untyped_storage())
    return array.tobytes("C")


ONE, TWO = Digest("1" * 64), Digest("2" * 64)

# Values that a weak encoding takes for each other.
CONFUSABLE: list[Any] = [
    *(None, False, True, 0, 1, -1, 255, 256, 2**53, 2**63, 2**64 - 1, 2**64, -(2**64), -(2**64) - 1, 2**200),
    *(0.0, -0.0, 1.0, -1.0, float(2**53), float(2**64), 1e-45, 5e-324, float("inf"), float("-inf")),
    *("", "0", "1", "1.0", "None", "null", "true", "True", "inf", "[]", "\0", "a", "A"),
    *(unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é"), "e", ONE.hex),
    *(b"", b"0", b"1", b"a", b"\x01", "é".encode(), bytes.fromhex(ONE.hex)),
    *([], (), {}, [[]], [()], ([],), {"": None}, [None], {"a": {}}, [["a", 1]], [("a", 1)], {"a": 1}),
    *(Ref(ONE), Ref(TWO), Ref(ONE, of="file"), Ref(ONE, of="folder")),
    *(Adapter(strength=1), Adapter(strength=1.0), Twin(strength=1)),
]

_numpy_dtypes = st.sampled_from(["b1", "u1", "i1", "<i4", ">i4", "<i8", "<f2", "<f4", "<f8", "<c8"])
_torch_dtypes = st.sampled_from(
    [
        *(torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16),
        *(torch.bfloat16, torch.float32, torch.complex64, torch.float8_e4m3fn),
    ]
)
_shapes = st.sampled_from([(), (0,), (1,), (1, 1), (2,), (1, 2), (2, 1), (0, 2), (2, 2)])
_fills = st.sampled_from([0, 1])

arrays = st.builds(lambda s, f, d: np.full(s, f, dtype=d), _shapes, _fills, _numpy_dtypes)
tensors = st.builds(lambda s, f, d: torch.full(s, f).to(d), _shapes, _fills, _torch_dtypes)
names = st.sampled_from(["", "a", "b", "aa", "a.b", "[0]", "é"]) | st.text(max_size=30)

scalars = st.one_of(
    st.sampled_from(CONFUSABLE),
    st.integers(-3, 3),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    arrays,
    tensors,
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=3)
    return lists | lists.map(tuple) | st.dictionaries(names, inner, max_size=3)


values = st.recursive(scalars, _containers, max_leaves=8)


def places(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place inside a value, its own included."""
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, (list, tuple)):
        inner = list(enumerate(value))
    return [at, *(place for step, item in inner for place in places(item, (*at, step)))]


def replaced(value: Any, place: tuple[str | int, ...], new: Any) -> Any:
    """A copy of a value with another one at a place."""
    if not place:
        return new
    step, rest = place[0], place[1:]
    if isinstance(value, dict):
        return {name: replaced(item, rest, new) if name == step else item for name, item in value.items()}
    return type(value)(replaced(item, rest, new) if i == step else item for i, item in enumerate(value))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two values that differ little or not at all: chance alone would hardly ever try the encoder."""
    value = draw(values)
    return value, replaced(value, draw(st.sampled_from(places(value))), draw(values))

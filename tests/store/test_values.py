"""Values come back as they were put, and equal values are stored once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from restrike.keys import Digest, Record, Unkeyable
from restrike.store.values import blobs_of, pack, unpack

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
trees = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
arrays = npst.arrays(dtype=st.sampled_from(["u1", "<i4", "<f4", "<f8"]), shape=npst.array_shapes(max_dims=4))


def round_trip(value: object) -> object:
    packed = pack(value)
    blobs = {digest: bytearray(data) for digest, data in packed.blobs.items()}
    assert blobs_of(packed.document) == frozenset(blobs)
    return unpack(packed.document, blobs.__getitem__)


@given(trees)
def test_plain_values_come_back(value: object) -> None:
    back = round_trip(value)
    assert back == value
    assert pack(back).digest == pack(value).digest


@given(arrays)
def test_arrays_come_back_to_the_bit_and_read_only(array: np.ndarray) -> None:
    back = round_trip({"a": [array]})["a"][0]  # type: ignore[index]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert not back.flags.writeable


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_tensors_come_back_to_the_bit(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    value = torch.arange(6).reshape(2, 3).to(dtype) if shape == (2, 3) else torch.ones(shape).to(dtype)
    back = round_trip(value)
    assert isinstance(back, torch.Tensor)
    assert back.dtype == dtype
    assert torch.equal(back, value)


def test_a_view_is_stored_as_what_it_shows() -> None:
    array = np.arange(24, dtype=np.uint8).reshape(4, 6)[::2, ::-3]
    assert np.array_equal(round_trip(array), array)  # type: ignore[arg-type]


def test_equal_arrays_share_a_blob() -> None:
    packed = pack({"a": np.arange(9), "b": np.arange(9), "c": np.arange(9).reshape(3, 3)})
    assert len(packed.blobs) == 1


@dataclass(frozen=True)
class Point:
    key_name: ClassVar[str] = "point"
    xy: np.ndarray


@dataclass(frozen=True)
class Nameless:
    x: int


def test_a_dataclass_comes_back_as_a_record() -> None:
    back = round_trip([Point(np.arange(2))])[0]  # type: ignore[index]
    assert isinstance(back, Record)
    assert back.name == "point"
    assert back.fields["xy"].tolist() == [0, 1]  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [{"a": [1, float("nan")]}, {"a": [1, object()]}, {"a": [1, Nameless(1)]}])
def test_what_cannot_be_keyed_is_refused_with_its_place(value: object) -> None:
    with pytest.raises(Unkeyable, match=r"a\[1\]"):
        pack(value)


def test_a_document_names_no_blob_that_is_not_given() -> None:
    document = pack(np.arange(3)).document

    def nothing(digest: Digest) -> bytearray:
        raise KeyError(digest)

    with pytest.raises(KeyError):
        unpack(document, nothing)

"""Arrays and tensors are keyed by dtype, shape and elements, and by nothing else."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from restrike.keys import ArrayContent, digest
from restrike.keys.arrays import content_of
from restrike.keys.encoding import encode

from .oracle import elements

BASE_np = np.arange(24, dtype="<f4").reshape(2, 3, 4)
BASE_pt = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "other",
    [
        np.asfortranarray(BASE_np),
        np.concatenate([BASE_np, BASE_np])[:2],
        np.repeat(BASE_np, 2, axis=2)[:, :, ::2],
        np.ascontiguousarray(BASE_np[::-1])[::-1],
        np.ascontiguousarray(BASE_np.transpose(2, 0, 1)).transpose(1, 2, 0),
    ],
)
def test_how_an_array_lies_in_memory_is_no_part_of_it(other: np.ndarray) -> None:
    assert encode(other) == encode(BASE_np)


@pytest.mark.parametrize(
    "other",
    [
        BASE_pt.permute(2, 0, 1).contiguous().permute(1, 2, 0),
        torch.cat([BASE_pt, BASE_pt])[:2],
        BASE_pt.repeat_interleave(2, dim=2)[:, :, ::2],
        BASE_pt.clone().requires_grad_(),
        torch.nn.Parameter(BASE_pt),
    ],
)
def test_how_a_tensor_lies_in_memory_is_no_part_of_it(other: torch.Tensor) -> None:
    assert encode(other) == encode(BASE_pt)


def changed(array: Any, index: int) -> Any:
    copy = array.clone() if isinstance(array, torch.Tensor) else array.copy()
    copy.reshape(-1)[index] += 1
    return copy


@pytest.mark.parametrize(
    "other",
    [
        BASE_np.reshape(3, 2, 4),
        BASE_np.reshape(24),
        BASE_np.astype("<f8"),
        BASE_np.astype(">f4"),
        BASE_np.view("<i4"),
        BASE_np[None],
        BASE_np[:1],
        -BASE_np,  # its first element is -0.0
        BASE_np.tolist(),
        BASE_np.tobytes(),
        BASE_pt,
        *(changed(BASE_np, index) for index in (0, 11, 23)),
    ],
)
def test_every_other_array_is_another_value(other: Any) -> None:
    assert encode(other) != encode(BASE_np)


@pytest.mark.parametrize(
    "other",
    [
        BASE_pt.reshape(24),
        BASE_pt.to(torch.bfloat16),
        BASE_pt.to(torch.float16),
        BASE_pt.view(torch.int32),
        *(changed(BASE_pt, index) for index in (0, 11, 23)),
    ],
)
def test_every_other_tensor_is_another_value(other: torch.Tensor) -> None:
    assert encode(other) != encode(BASE_pt)


def test_lazy_conjugates_and_negatives_are_read_as_they_look() -> None:
    wave = torch.tensor([1 + 2j, 3 - 4j])
    assert wave.conj().is_conj()
    assert encode(wave.conj()) == encode(torch.tensor([1 - 2j, 3 + 4j])) != encode(wave)
    assert wave.conj().imag.is_neg()
    assert encode(wave.conj().imag) == encode(torch.tensor([-2.0, 4.0]))


def test_nan_inside_an_array_is_bytes() -> None:
    quiet = np.array([0x7FC00000], np.uint32).view(np.float32)
    payload = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert len({encode(quiet), encode(payload), encode(torch.from_numpy(quiet.copy()))}) == 3


@pytest.mark.parametrize("scalar", [np.int64(1), np.float64(1.5), np.bool_(True), np.float16(2)])
def test_a_numpy_scalar_is_the_array_of_no_axes(scalar: Any) -> None:
    assert encode(scalar) == encode(np.asarray(scalar)) != encode(scalar.item())


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.bfloat16, torch.float8_e5m2, torch.complex64, torch.uint16]
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3,), (2, 2)])
def test_the_digest_is_of_the_bare_elements(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    import hashlib

    tensor = torch.ones(shape).to(dtype)
    content = content_of(tensor)
    assert content is not None
    assert content.shape == shape
    assert content.sha256.hex == hashlib.sha256(elements(tensor)).hexdigest()


def test_what_stands_for_an_array_has_its_key() -> None:
    content = content_of(BASE_np)
    assert isinstance(content, ArrayContent)
    assert encode(content) == encode(BASE_np)


def test_hashing_copies_nothing_that_is_contiguous() -> None:
    import tracemalloc

    large = np.zeros(32 * 2**20, np.uint8)
    tracemalloc.start()
    digest("value", "1", large)
    digest("value", "1", torch.from_numpy(large))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 2**20


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_device_is_no_part_of_a_tensor() -> None:
    assert encode(BASE_pt.cuda()) == encode(BASE_pt)
    assert encode(BASE_pt.cuda().transpose(0, 2)) == encode(BASE_pt.transpose(0, 2))


def test_keys_import_neither_numpy_nor_torch() -> None:
    code = """
import sys, restrike.keys as keys
key = keys.Key("step", "1", {"a": [1, (2.5, b"x")], "r": keys.Ref(keys.bytes_digest(b"x"))})
assert keys.Key.decode(key.encoding) == key
print([name for name in ("numpy", "torch", "sqlalchemy", "pydantic") if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

"""Digests the content of numpy arrays and torch tensors: dtype, shape and the bytes of the elements.

Never imports numpy or torch (a value of theirs exists only where they are imported already), and never
looks at device, strides, memory format or gradients: none of them changes what the elements are.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from restrike.keys.unkeyable import Unkeyable
from restrike.keys.values import ArrayContent, bytes_digest

if TYPE_CHECKING:
    import numpy as np
    import torch

# The dtypes whose bytes are their value. Left out: Python objects (addresses), structures and long doubles
# (padding), text and times, and torch's packed and quantized dtypes (the bytes alone do not say the value).
_NUMPY_DTYPES = frozenset(
    ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"],
)
_TORCH_DTYPES = frozenset(
    [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("bfloat16", "float16", "float32", "float64", "complex32", "complex64", "complex128"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    ]
)


def elements_of(value: Any) -> memoryview:
    """The elements of an array or tensor that `content_of` accepts: flat bytes in C order.

    A view of the array's own memory where that is contiguous and on the host, else a copy.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch_elements(value)
    return _numpy_elements(value)


def content_of(value: Any) -> ArrayContent | None:
    """The content of an array, a numpy scalar or a tensor; None for anything else.

    Raises:
        Unkeyable: the array's bytes are not its value, or are not there (meta, sparse, quantized, masked).
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _numpy_content(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch_content(value)
    return None


def _numpy_content(value: np.ndarray | np.generic) -> ArrayContent:
    import numpy as np

    if isinstance(value, np.generic):
        if value != value:
            raise Unkeyable("NaN cannot be keyed: it is not equal to itself")
        value = np.asarray(value)
    if type(value) is not np.ndarray:
        raise Unkeyable(f"{_name(value)} says more than its elements; pass a plain numpy.ndarray")
    if value.dtype.str[1:] not in _NUMPY_DTYPES:
        raise Unkeyable(f"numpy's dtype {value.dtype} cannot be keyed; use numbers of a fixed size")
    return ArrayContent("numpy", value.dtype.str, tuple(value.shape), bytes_digest(_numpy_elements(value)))


def _numpy_elements(value: np.ndarray | np.generic) -> memoryview:
    import numpy as np

    return np.ascontiguousarray(value).reshape(-1).view(np.uint8).data


def _torch_content(value: torch.Tensor) -> ArrayContent:
    import torch

    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise Unkeyable(f"{_name(value)} says more than its elements; pass a plain torch.Tensor")
    if value.layout is not torch.strided or value.is_nested:
        raise Unkeyable(f"a tensor of layout {value.layout} cannot be keyed; make it dense")
    if value.is_meta:
        raise Unkeyable("a tensor on the meta device holds no elements to key")
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in _TORCH_DTYPES:
        raise Unkeyable(f"torch's dtype {dtype} cannot be keyed; dequantize or unpack it")
    return ArrayContent("torch", dtype, tuple(value.shape), bytes_digest(_torch_elements(value)))


def _torch_elements(value: torch.Tensor) -> memoryview:
    import torch

    dense = value.detach().resolve_conj().resolve_neg().contiguous().cpu()
    return dense.reshape(-1).view(torch.uint8).numpy().data


def _name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"

"""The NVIDIA driver's word on which GPUs are here, asked through its own library. Touches no GPU memory."""

from __future__ import annotations

import ctypes
from functools import cache

LIBRARIES = ("libcuda.so.1", "nvcuda.dll")
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


@cache
def capabilities() -> tuple[int, ...]:
    """Ten times the compute capability of each GPU, such as 90; empty without a driver."""
    library = _library()
    if library is None or library.cuInit(0) != 0:
        return ()
    count = ctypes.c_int()
    if library.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return ()
    return tuple(
        10 * _attribute(library, _MAJOR, device) + _attribute(library, _MINOR, device)
        for device in range(count.value)
    )


def _library() -> ctypes.CDLL | None:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _attribute(library: ctypes.CDLL, attribute: int, device: int) -> int:
    value = ctypes.c_int()
    library.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
    return value.value

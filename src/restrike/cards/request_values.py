"""Reads the values of a request as the plain kinds that its fields declare.

A numpy integer becomes an int; what is of another kind is a fault. Nothing here looks at a card.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from restrike.cards.adapters import Adapter, adapter_of


def read(name: str, value: Any) -> Any:
    """The value of a request's field as its plain kind; raises ValueError, naming the kind it must have."""
    words, reader = _KINDS[name]
    try:
        return reader(value)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ValueError(f"{name} {_shown(value)} is not {words}") from error


def recordable(value: Any) -> Any:
    """A call argument as plain values; what JSON does not hold (a mask, a tensor) is named by its digest."""
    if isinstance(value, Mapping):
        return {str(name): recordable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [recordable(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    from restrike.keys import Unkeyable, digest

    try:
        return {"digest": str(digest("call-argument", "1", _elements(value)))}
    except Unkeyable as reason:
        return {"not keyable": f"{type(value).__name__}: {reason}"}


def _elements(value: Any) -> Any:
    # A PIL picture shows its pixels to numpy and is not one of its arrays.
    if hasattr(value, "__array_interface__") and not hasattr(value, "__array__"):
        import numpy as np

        return np.array(value)
    return value


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def _real(value: Any) -> float:
    if isinstance(value, bool | str | bytes):
        raise TypeError
    return float(value)


def _range(value: Any) -> tuple[float, float]:
    low, high = value
    return _real(low), _real(high)


def _image(value: Any) -> Any:
    if len(value.shape) != 3 or value.shape[2] != 3 or 0 in value.shape or str(value.dtype) != "uint8":
        raise ValueError
    return value


def _adapters(value: Any) -> tuple[Adapter, ...]:
    if isinstance(value, str | Mapping):
        raise TypeError
    return tuple(map(adapter_of, value))


def _call(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TypeError
    return dict(value)


_TEXT = ("a text", _text)
_WHOLE = ("a whole number", _whole)
_REAL = ("a number", _real)
_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "prompt": _TEXT,
    "negative_prompt": _TEXT,
    "seed": _WHOLE,
    "items": ("a list of whole numbers", lambda value: tuple(map(_whole, value))),
    "steps": _WHOLE,
    "guidance": _REAL,
    "guidance_2": _REAL,
    "guidance_mode": _TEXT,
    "guidance_interval": ("a range of two numbers", _range),
    "guidance_every": _WHOLE,
    "width": _WHOLE,
    "height": _WHOLE,
    "frames": _WHOLE,
    "fps": _REAL,
    "solver": _TEXT,
    "shift": _REAL,
    "sigmas": ("a list of numbers", lambda value: tuple(map(_real, value))),
    "image": ("a picture (height x width x 3, uint8)", _image),
    "call": ("a mapping of argument names", _call),
    "adapters": ("a list of adapters", _adapters),
    "exact": ("true or false", _flag),
}

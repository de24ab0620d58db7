"""One compiled call: what it may be given, and how it is bound to a module. Runs nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from restrike.loops.contract import Tensors

Run = Callable[[Tensors], Tensor]
"""Answers the named tensors of one forward."""

_NUMBERS_NDIM = 1
"""A tensor of at most so many axes holds numbers of requests: a timestep, a guidance scale."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """One tensor of a call: the least and the most of each axis, and its dtype."""

    name: str
    sizes: tuple[tuple[int, int], ...]
    dtype: torch.dtype


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The first thing in which a forward is not as compiled; `place` counts the tensors that were."""

    place: int
    text: str


class CallId(NamedTuple):
    """What tells a compiled call from others: one code may serve several components, and calls."""

    component: str
    call: Hashable
    key: str


@dataclass(frozen=True, kw_only=True)
class CompiledCall:
    """What was compiled: the call of a component on tensors of these forms.

    `key` names the compiled code and `label` is how a person tells it. `bind` gives the code as a callable
    that reads the module's own memory, and raises RestrikeError where it cannot; `failed` is told why the
    code must not be used again.
    """

    component: str
    call: Hashable
    inputs: tuple[Declared, ...]
    key: str
    label: str
    bind: Callable[[nn.Module], Run]
    failed: Callable[[str], None]

    @property
    def id(self) -> CallId:
        """What tells it from others."""
        return CallId(self.component, self.call, self.key)

    def admit(self, inputs: Tensors) -> Tensors | Gap:
        """The tensors as the code takes them, or the first gap between them and what was compiled."""
        if len(inputs) != len(self.inputs) or any(spec.name not in inputs for spec in self.inputs):
            asked, has = ", ".join(sorted(inputs)), ", ".join(spec.name for spec in self.inputs)
            return Gap(place=0, text=f"tensors {asked}, compiled for {has}")
        cast: dict[str, Tensor] = {}
        for place, spec in enumerate(self.inputs):
            value = inputs[spec.name]
            if text := _misfit(spec, value):
                return Gap(place=place, text=text)
            if value.dtype is not spec.dtype:
                number = _as_number(value, spec.dtype)
                if number is None:
                    return Gap(place=place, text=f"'{spec.name}' is {_word(value.dtype)}, {_wants(spec)}")
                cast[spec.name] = number
        return {**inputs, **cast} if cast else inputs


def identity_of(call: Callable[[Any, Mapping[str, Tensor]], Tensor]) -> Hashable:
    """What tells one call from another: two methods are one call when their owners are equal."""
    owner = getattr(call, "__self__", None)
    found: tuple[Any, ...] = (getattr(call, "__func__", call), owner)
    try:
        hash(found)
    except TypeError:  # an owner that is not a value is told by which one it is
        return (found[0], id(owner))
    return found


def _misfit(spec: Declared, value: Tensor) -> str | None:
    """The first axis that is not as compiled."""
    if value.ndim != len(spec.sizes):
        return f"'{spec.name}' has {value.ndim} axes, compiled for {len(spec.sizes)}"
    for axis, (size, (least, most)) in enumerate(zip(value.shape, spec.sizes, strict=True)):
        if not least <= size <= most:
            held = f"{least}" if least == most else f"{least} to {most}"
            return f"axis {axis} of '{spec.name}' is {size}, compiled for {held}"
    return None


def _as_number(value: Tensor, dtype: torch.dtype) -> Tensor | None:
    """The numbers in another dtype; None when it is no tensor of numbers, or one of them would change."""
    if value.ndim > _NUMBERS_NDIM:
        return None
    cast = value.to(dtype)
    return cast if torch.equal(cast.to(value.dtype), value) else None


def _wants(spec: Declared) -> str:
    return f"compiled for {_word(spec.dtype)}"


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

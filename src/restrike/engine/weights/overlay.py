"""Adapters fused into the parameters of a card, in place, and the pristine bytes that undo them exactly.

Every fuse starts from the pristine bytes and is computed in float32, rounded once; what was fused before
never enters. A parameter keeps its storage, so whatever holds its address stays valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from restrike.engine.weights.binding import Addition

Place = tuple[str, str]
"""A component and the dotted name of one of its parameters."""


class Overlay:
    """The parameters that adapters changed; only these have a copy, on the host."""

    def __init__(self, module: Callable[[str], Any]) -> None:
        self._module = module
        self._pristine: dict[Place, Tensor] = {}

    @property
    def components(self) -> tuple[str, ...]:
        """The components that differ from their base."""
        return tuple(dict.fromkeys(component for component, _ in self._pristine))

    def become(self, additions: Sequence[Addition]) -> None:
        """Replace all that is fused by these additions, in their order; without any, restore the base.

        When it fails midway, the base is restored.
        """
        wanted: dict[Place, list[Addition]] = {}
        for part in additions:
            # Adding nothing at all keeps even the sign of a zero.
            for name in part.parameters() if part.strength else ():
                wanted.setdefault((part.component, name), []).append(part)
        try:
            for place in [place for place in self._pristine if place not in wanted]:
                self._restore(place)
            for place, parts in wanted.items():
                self._fuse(place, parts)
        except BaseException:
            for place in list(self._pristine):
                self._restore(place)
            raise

    def _restore(self, place: Place) -> None:
        write(self._parameter(place), self._pristine[place])
        del self._pristine[place]

    def _fuse(self, place: Place, parts: Sequence[Addition]) -> None:
        parameter = self._parameter(place)
        if place not in self._pristine:
            self._pristine[place] = parameter.detach().to("cpu", copy=True)
        total = self._pristine[place].to(parameter.device).float()
        for part in parts:
            total = total + part.added(place[1], parameter.shape, parameter.device)
        write(parameter, total)

    def _parameter(self, place: Place) -> Tensor:
        component, name = place
        module: nn.Module = self._module(component)
        return module.get_parameter(name)


def write(parameter: Tensor, value: Tensor) -> None:
    """Put values into a tensor where it lies."""
    with torch.no_grad():
        parameter.copy_(value)

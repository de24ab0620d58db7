"""Finds the layers that a LoRA was made for, or says which of its names find none. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from restrike.cards.adapters import Adapter
from restrike.engine.weights.lora import Update
from restrike.engine.weights.naming import listed
from restrike.errors import Refused

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True, kw_only=True)
class Addition:
    """What one adapter adds, at its strength, to the layer `layer` of a component."""

    component: str
    layer: str
    strength: float
    update: Update

    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that it changes."""
        return (f"{self.layer}.weight", *((f"{self.layer}.bias",) if self.update.bias is not None else ()))

    def added(self, parameter: str, shape: torch.Size, device: torch.device) -> Tensor:
        """What it adds to one of these parameters, float32."""
        if parameter.endswith(".bias"):
            assert self.update.bias is not None
            return self.strength * self.update.scale * self.update.bias.float().to(device)
        return self.strength * self.update.weight_on(device).reshape(shape)


def bind(
    adapter: Adapter,
    updates: Sequence[Update],
    components: Sequence[str],
    module: Callable[[str], Any],
) -> tuple[Addition, ...]:
    """The additions of an adapter to the components of a card.

    A name that begins with a component's own is for that one; the others are for the one component that
    has most of their layers.

    Raises:
        Refused: nothing of it fits, or not all; the names are listed.
    """
    elsewhere = [update for update in updates if _component(update.place, components) is None]
    home = adapter.component or (_home(elsewhere, components, module) if elsewhere else None)
    found: list[Addition] = []
    lost: list[str] = []
    for update in updates:
        named = _component(update.place, components)
        component = adapter.component or named or home
        layer = update.place if named is None else update.place.removeprefix(f"{named}.")
        if component is None or not _fits(module(component), layer, update):
            lost += update.keys
        else:
            found.append(Addition(component=component, layer=layer, strength=adapter.strength, update=update))
    if lost or not found:
        count = sum(len(update.keys) for update in updates)
        where = adapter.component or "any component"
        raise Refused(
            f"LoRA '{adapter.name}' binds {count - len(lost)} of its {count} tensors; "
            f"no layer of {where} fits {listed(lost) or 'any'}"
        )
    return tuple(found)


def _component(place: str, components: Sequence[str]) -> str | None:
    first = place.partition(".")[0]
    return first if first in components else None


def _home(updates: Sequence[Update], components: Sequence[str], module: Callable[[str], Any]) -> str | None:
    def matches(component: str) -> int:
        return sum(_fits(module(component), update.place, update) for update in updates)

    best = max(components, key=matches)
    return best if matches(best) else None


def _fits(module: Any, layer: str, update: Update) -> bool:
    found = _layer(module, layer)
    if found is None:
        return False
    outputs, rank = found.weight.shape[0], update.down.shape[0]
    return (
        update.up.flatten(1).shape == (outputs, rank)
        and update.down.flatten(1).shape == (rank, found.weight.numel() // outputs)
        and (update.bias is None or (found.bias is not None and update.bias.shape == found.bias.shape))
    )


def _layer(module: Any, name: str) -> Any:
    """The linear or convolutional layer of that name, with plain floating weights; else None."""
    if not isinstance(module, nn.Module):
        return None
    try:
        found = module.get_submodule(name)
    except AttributeError:
        return None
    if not isinstance(found, _LAYERS):
        return None
    weight: Tensor = found.weight
    return found if type(weight) in (Tensor, nn.Parameter) and weight.is_floating_point() else None


def changed_by(additions: Sequence[Addition]) -> Iterator[tuple[str, str]]:
    """Each (component, parameter) once, in the order in which it is first changed."""
    yield from dict.fromkeys((part.component, name) for part in additions for name in part.parameters())

"""Reads a LoRA file: what it adds to which layer. Safetensors only; it touches no module.

Names are those of peft (`X.lora_A.weight`, `X.lora_B.weight`) or of other trainers (`X.lora_down.weight`,
`X.lora_up.weight`), with `X.alpha` or diffusers' metadata for the scale. The update of a layer is
scale * up @ down with scale = alpha / rank (Hu et al. 2021, "LoRA"), or alpha / sqrt(rank) where the metadata
say so (Kalajdzievski 2023, "rsLoRA"); without an alpha it is up @ down.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from restrike.cards.adapters import Adapter
from restrike.cards.card import ModelCard
from restrike.engine.weights.naming import listed
from restrike.errors import Refused
from restrike.keys import bytes_digest

_METADATA = "lora_adapter_metadata"
_ROLES = {
    "down": re.compile(r"(.+)\.(?:lora_A|lora_down|lora\.down)(?:\.default)?\.weight"),
    "up": re.compile(r"(.+)\.(?:lora_B|lora_up|lora\.up)(?:\.default)?\.weight"),
    "bias": re.compile(r"(.+)\.lora_B(?:\.default)?\.bias"),
    "alpha": re.compile(r"(.+?)(?:\.lora)?\.alpha"),
}
_PEFT_PREFIX = "base_model.model."


@dataclass(frozen=True, kw_only=True)
class Update:
    """What is added to the layer at `place`: scale * up @ down, and scale * bias where there is one.

    `down` is (rank, inputs, ...), `up` (outputs, rank, ...); `keys` are the names of its tensors in the file.
    """

    place: str
    down: Tensor
    up: Tensor
    bias: Tensor | None
    scale: float
    keys: tuple[str, ...]

    def weight_on(self, device: torch.device) -> Tensor:
        """The update of the weight, float32, (outputs, inputs * ...), computed on a device."""
        up, down = (part.to(device).float().flatten(1) for part in (self.up, self.down))
        return self.scale * (up @ down)


def updates_of(adapter: Adapter, card: ModelCard) -> tuple[Update, ...]:
    """All that a settled adapter adds, in the order of its places.

    Raises:
        Refused: the file was changed since it was settled, is torn, holds names that are no part of a LoRA, a
            tensor without its partner, or one that is not finite.
    """
    assert adapter.file is not None
    whose = f"LoRA '{adapter.name}'"
    data = adapter.file.read_bytes()
    if str(bytes_digest(data)) != adapter.digest:
        raise Refused(f"{whose} was changed while it was used; run it again")
    try:
        tensors, metadata = load(data), _metadata(data)
    except (SafetensorError, ValueError) as error:
        raise Refused(f"{whose} is torn ({' '.join(str(error).split())})") from error
    if card.adapter_names is not None:
        tensors = dict(card.adapter_names(tensors))
    return tuple(_updates(whose, tensors, metadata))


def _metadata(data: bytes) -> dict[str, Any]:
    """The configuration that diffusers writes into the file's header; empty when there is none."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    found = json.loads(header.get("__metadata__", {}).get(_METADATA, "{}"))
    if not isinstance(found, dict):
        raise ValueError(f"{_METADATA} is not a mapping")
    return found


@dataclass(kw_only=True)
class _Parts:
    tensors: dict[str, Tensor] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)


def _updates(whose: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> Iterator[Update]:
    parts, strange = _parts(tensors)
    strange += [
        key for part in parts.values() if not {"down", "up"} <= part.tensors.keys() for key in part.keys
    ]
    if strange:
        raise Refused(
            f"{whose}: no use for {listed(strange)}; it holds a part that is no LoRA, or half of one"
        )
    wild = [key for key, value in tensors.items() if not bool(torch.isfinite(value).all())]
    if wild:
        raise Refused(f"{whose} holds NaN or infinity in {listed(wild)}")
    bare = any(key.startswith(_PEFT_PREFIX) for key in tensors)
    if bare and not metadata and not any("alpha" in part.tensors for part in parts.values()):
        raise Refused(
            f"{whose} was saved by peft alone, which keeps its scale in another file; "
            "save it with diffusers (save_lora_weights), which writes the scale into it"
        )
    for place, part in sorted(parts.items()):
        yield Update(
            place=place,
            down=part.tensors["down"],
            up=part.tensors["up"],
            bias=part.tensors.get("bias"),
            scale=_scale(place, part.tensors, metadata),
            keys=tuple(part.keys),
        )


def _parts(tensors: Mapping[str, Tensor]) -> tuple[dict[str, _Parts], list[str]]:
    """The tensors of each place by their role, and the names that have none."""
    parts: dict[str, _Parts] = {}
    strange: list[str] = []
    for key, value in tensors.items():
        role, place = _role(key)
        if role is None:
            strange.append(key)
            continue
        part = parts.setdefault(place, _Parts())
        part.tensors[role] = value
        part.keys.append(key)
    return parts, strange


def _role(key: str) -> tuple[str | None, str]:
    for role, pattern in _ROLES.items():
        if match := pattern.fullmatch(key):
            return role, match[1].removeprefix(_PEFT_PREFIX)
    return None, key


def _scale(place: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> float:
    rank = tensors["down"].shape[0]
    if "alpha" in tensors:
        return float(tensors["alpha"]) / rank
    component, _, layer = place.partition(".")
    prefix = f"{component}." if f"{component}.lora_alpha" in metadata else ""
    alpha = metadata.get(f"{prefix}lora_alpha")
    if alpha is None:
        return 1.0
    for pattern, own in (metadata.get(f"{prefix}alpha_pattern") or {}).items():
        if re.fullmatch(rf"(.*\.)?({pattern})", layer if prefix else place):
            alpha = own
    return float(alpha) / (math.sqrt(rank) if metadata.get(f"{prefix}use_rslora") else rank)

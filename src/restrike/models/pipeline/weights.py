"""The weight files of one component: that they are there, whole, and safe to read.

Only headers are read; a pickled file is named and never opened.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from restrike.cards.checkpoint import Checkpoint
from restrike.errors import NotFound, Refused

PICKLED = (".bin", ".ckpt", ".pt", ".pth", ".pkl", ".msgpack", ".h5")

# stem[.variant][-00001-of-00002].safetensors
_FILE = re.compile(r"[^.]+(?:\.(?P<variant>[^.]+?))?(?:-\d+-of-\d+)?\.safetensors")


@dataclass(frozen=True)
class Weights:
    """The variants in which a component's weights are there; None is the plain one."""

    variants: frozenset[str | None]


def weights_in(checkpoint: Checkpoint, component: str) -> Weights:
    """Check the weight files of a component.

    Raises:
        NotFound: no safetensors file, no configuration, or a shard that an index names is missing.
        Refused: the weights are only pickled, or a file is torn.
    """
    checkpoint.json(f"{component}/config.json")
    files = checkpoint.files((f"{component}/*.safetensors",))
    if not files:
        raise _without_safetensors(checkpoint, component)
    for index in checkpoint.files((f"{component}/*.safetensors.index.json",)):
        _check_shards(checkpoint, component, index)
    for file in files:
        _check_whole(checkpoint, file)
    named = (_FILE.fullmatch(file.name) for file in files)
    return Weights(frozenset(match["variant"] for match in named if match))


def _without_safetensors(checkpoint: Checkpoint, component: str) -> Refused:
    pickled = [file.name for file in checkpoint.files((f"{component}/*",)) if file.suffix in PICKLED]
    if not pickled:
        return NotFound(f"checkpoint '{checkpoint.name}' has no weights in '{component}' (*.safetensors)")
    return Refused(
        f"checkpoint '{checkpoint.name}' has only pickled weights in '{component}' ({', '.join(pickled)}), "
        "which can run code when they are read; take a revision with *.safetensors, or convert them where "
        "you trust them (save_pretrained with safe_serialization=True)"
    )


def _check_shards(checkpoint: Checkpoint, component: str, index: Path) -> None:
    try:
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"checkpoint '{checkpoint.name}': {component}/{index.name} is torn") from error
    missing = sorted(shard for shard in shards if not checkpoint.has(f"{component}/{shard}"))
    if missing:
        raise NotFound(
            f"checkpoint '{checkpoint.name}' has no {component}/{missing[0]}, a part of its weights"
        )


def _check_whole(checkpoint: Checkpoint, file: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy"):
            pass
    except SafetensorError as error:
        shown = file.relative_to(checkpoint.root).as_posix()
        raise Refused(f"checkpoint '{checkpoint.name}': {shown} is torn ({error}); fetch it again") from error

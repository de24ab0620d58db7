"""The key of a cell, made of its facts alone, so that it is known before anything is compiled.

Never reads a key that was written down: who opens a cell makes its key again from what it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restrike.keys import Digest, Key, Ref
from restrike.mint.cell.facts import Ingress, Stack, Target

EPOCH = "1"


def cell_key(
    *, graph: str, ingress: Ingress, stack: Stack, target: Target, layout: str, options: Mapping[str, Any]
) -> Key:
    """The key of one compiled call.

    Args:
        graph: the digest of the canonical traced graph, 64 hexadecimal digits.
        ingress: the named tensors of the call.
        stack: what compiles it.
        target: what it will run on.
        layout: how the tensors lie in memory: `contiguous` or `channels_last`.
        options: the options of the compiler, as plain values.

    Raises:
        Refused: `graph` is no digest.
        Unkeyable: an option is no plain value.
    """
    parts = {
        "graph": Ref(Digest(graph)),
        "ingress": ingress,
        "stack": stack,
        "target": target,
        "layout": layout,
        "options": dict(options),
    }
    return Key("cell", EPOCH, parts)

"""Which capture backend a device gets: the one named, or the one that pays. Never another in silence."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch

from restrike.engine.capture.backend import Backend
from restrike.engine.capture.capturer import Capturer
from restrike.engine.capture.cuda import CudaBackend
from restrike.engine.capture.modes import checked_mode
from restrike.engine.capture.tape import TapeBackend
from restrike.engine.memory.budget import Share
from restrike.errors import Refused


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The backend, or why there is none; `named` tells that the user asked for it by name."""

    backend: Backend | None
    absent: str = ""
    named: bool = False


def capturer_for(
    mode: str, device: torch.device, share: Share, version_of: Callable[[str], Hashable]
) -> Capturer:
    """The capturer of a card on a device, of whose memory it has a share; raises what `choose` raises."""
    chosen = choose(mode, device)
    return Capturer(
        chosen.backend, absent=chosen.absent, named=chosen.named, version_of=version_of, share=share
    )


def choose(mode: str, device: torch.device) -> Choice:
    """What a mode means on a device: `auto` is CUDA graphs on NVIDIA and nothing elsewhere.

    Raises:
        Unknown: no such mode.
        Refused: the backend that was named cannot run on this device.
    """
    checked_mode(mode)
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    if mode == "off":
        return Choice(backend=None, absent="off")
    if mode == "tape":
        return Choice(backend=TapeBackend(device), named=True)
    if is_nvidia:
        return Choice(backend=CudaBackend(device), named=mode == "cuda")
    if mode == "cuda":
        raise Refused(f"capture 'cuda' cannot run on {device}; auto, off and tape can")
    return Choice(backend=None, absent=f"no backend that pays on {device.type}")

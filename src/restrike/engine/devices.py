"""Which device and precision a card gets. Asks torch what is there; never falls back in silence."""

from __future__ import annotations

import torch

from restrike.cards.card import ModelCard
from restrike.cards.placement import Placement
from restrike.errors import Unknown


def available() -> tuple[str, ...]:
    """The devices of this machine, best first."""
    gpus = (
        [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    metal = ["mps"] if torch.backends.mps.is_available() else []
    return (*gpus, *metal, "cpu")


def placement_for(card: ModelCard, device: str | None = None, precision: str | None = None) -> Placement:
    """The placement that was asked for, or the best one: the first device, the card's first precision.

    Raises:
        Unknown: no such device here.
        Refused: the card is not known to hold in that precision.
    """
    present = available()
    chosen = {"cuda": "cuda:0", None: present[0]}.get(device, device)
    if chosen not in present:
        gpu = str(chosen).startswith(("cuda", "gpu"))
        hint = f"torch {torch.__version__} sees no such GPU; restrike doctor says why." if gpu else ""
        raise Unknown("device", str(device), present, hint=hint)
    return Placement(device=chosen, dtype=card.precision(precision))

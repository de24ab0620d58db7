"""How a user may ask for captures, by name. Imports no torch, so that a wrong name is refused at once."""

from __future__ import annotations

from restrike.errors import Unknown

MODES = ("auto", "off", "tape", "cuda")


def checked_mode(mode: str) -> str:
    """The mode itself.

    Raises:
        Unknown: no such mode.
    """
    if mode not in MODES:
        raise Unknown("capture", mode, MODES)
    return mode

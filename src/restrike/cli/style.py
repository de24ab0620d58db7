"""Colour where a person looks, plain text elsewhere: not a terminal, NO_COLOR, or TERM=dumb."""

from __future__ import annotations

import os
from typing import TextIO

import typer


def coloured(stream: TextIO) -> bool:
    """Whether the stream shows colours (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, colour: str, *, stream: TextIO) -> str:
    """The text, bold and coloured where the stream shows it."""
    return typer.style(text, fg=colour, bold=True) if coloured(stream) else text

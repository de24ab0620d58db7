"""A request made of a prompt and options by name, as programs give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from restrike.cards.request import Request
from restrike.errors import Unknown

NAMES = tuple(part.name for part in fields(Request) if part.name != "prompt")


def request_of(prompt: str, options: Mapping[str, Any]) -> Request:
    """The request; an image may be given as a file. Raises Unknown for an option that there is not."""
    for name in options:
        if name not in NAMES:
            raise Unknown("option", name, NAMES)
    asked = dict(options)
    if isinstance(asked.get("image"), str | Path):
        from restrike.media import read_picture

        asked["image"] = read_picture(asked["image"])
    return Request(prompt=prompt, **asked)

"""Reads the values that are written in a form of the command line's own: 64x48, 1,0.7,0.3, key=value."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from restrike.cards.adapters import Adapter
from restrike.errors import Refused


def size(text: str) -> tuple[int, int]:
    """'64x48' as width and height in pixels; raises Refused."""
    match = re.fullmatch(r"\s*(\d{1,6})\s*[xX×]\s*(\d{1,6})\s*", text)
    if match is None:
        raise Refused(f"size '{text}' is not WIDTHxHEIGHT, such as 64x64")
    return int(match[1]), int(match[2])


def sigmas(text: str) -> tuple[float, ...]:
    """'1,0.7,0.3' as numbers; raises Refused."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise Refused(f"sigmas '{text}' are not numbers with commas between, such as 1,0.7,0.3") from error


def settings(texts: list[str]) -> dict[str, Any]:
    """'key=value' each, the value being JSON or a bare word; raises Refused."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise Refused(f"setting '{text}' is not KEY=VALUE, such as true_cfg_scale=4.0")
        if key in found:
            raise Refused(f"setting '{key}' is given twice")
        found[key.strip()] = _json_or_word(key, value)
    return found


def lora(text: str) -> Adapter:
    """'style.safetensors:0.8', or 'transformer_2=style.safetensors' for one component; raises Refused.

    A text that is a file's own name means that file, whatever is in it.
    """
    if Path(text).expanduser().is_file():
        return Adapter(text)
    component, equals, rest = text.partition("=")
    if not equals or not component.isidentifier():
        component, rest = "", text
    location, colon, strength = rest.rpartition(":")
    number = _number(strength) if colon else None
    if number is None:
        location, number = rest, 1.0
    if not location:
        raise Refused(f"LoRA '{text}' is not FILE or FILE:STRENGTH, such as style.safetensors:0.8")
    return Adapter(location, number, component=component or None)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _json_or_word(key: str, value: str) -> Any:
    try:
        return json.loads(value, parse_constant=_no_constant)
    except ValueError as error:
        # A shell takes the quotes from "a word"; what looks like a list, an object or a text is meant as one.
        if value.lstrip()[:1] in ("[", "{", '"'):
            raise Refused(f"setting '{key}': {value} is not valid JSON ({error})") from error
        return value


def _no_constant(name: str) -> float:
    raise Refused(f"{name} is not a number that JSON has")

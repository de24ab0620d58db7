"""A single generation as the workflow of one step that it is run as. Checks no argument: the card does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restrike.errors import Refused
from restrike.workflow.references import escaped

NAME, STEP = "generation", "picture"
_REFERENCES = ("image", "adapters")
"""What may name files of the workspace; everywhere else a text is a text, whatever it begins with."""


def workflow_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The definition of a generation: `card`, the fields of `Request`, and `output`, its kind of file.

    Raises:
        Refused: it has no card.
    """
    given = {name: value for name, value in body.items() if value is not None}
    card = given.pop("card", None)
    if not isinstance(card, str):
        raise Refused("card: name the card that makes the picture")
    step: dict[str, Any] = {"generate": escaped(card)}
    if "seed" in given:
        step["seed"] = given.pop("seed")
    if "output" in given:
        step["result"] = {"container": escaped(str(given.pop("output")))}
    which = _which(given.pop("items", [0]))
    arguments = {name: value if name in _REFERENCES else _literal(value) for name, value in given.items()}
    step["arguments"] = arguments | which
    return {"name": NAME, "steps": {STEP: step}}


def _which(items: Any) -> dict[str, Any]:
    """The pictures from the first one on by their count; others by their numbers, which the card checks."""
    first = isinstance(items, list | tuple) and bool(items) and list(items) == list(range(len(items)))
    if not first:
        return {"items": items}
    return {"count": len(items)} if len(items) > 1 else {}


def _literal(value: Any) -> Any:
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, Mapping):
        return {name: _literal(part) for name, part in value.items()}
    return [_literal(part) for part in value] if isinstance(value, list | tuple) else value

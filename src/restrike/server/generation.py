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
        Refused: it has no card, or `items` leaves one out.
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
    exact = given.pop("exact", False)
    count = _count(given.pop("items", (0,)))
    arguments = {name: value if name in _REFERENCES else _literal(value) for name, value in given.items()}
    step["arguments"] = arguments | ({"count": count} if count > 1 else {})
    return {"name": NAME, "steps": {STEP: step}} | ({"match": "exact"} if exact else {})


def _count(items: Any) -> int:
    listed = list(items) if isinstance(items, list | tuple) else None
    if not listed or listed != list(range(len(listed))):
        raise Refused(f"items {items!r}: a job makes the pictures 0, 1, 2 and so on, none left out")
    return len(listed)


def _literal(value: Any) -> Any:
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, Mapping):
        return {name: _literal(part) for name, part in value.items()}
    return [_literal(part) for part in value] if isinstance(value, list | tuple) else value

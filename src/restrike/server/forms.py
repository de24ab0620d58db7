"""What is wrong with the form of a request, in this project's words: each fault at its place.

It reads what pydantic found and decides nothing; what values mean is checked where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from restrike.errors import Finding, Refused, nearest
from restrike.server.problems import NO_JSON
from restrike.workflow.findings import shown

NO_FIELD = "there is no such field"


class InvalidForm(Refused):
    """The form of a request is not the one that is taken here."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self._findings = tuple(findings)
        super().__init__("; ".join(map(str, self._findings)))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All faults of form, each at its place."""
        return self._findings


def invalid_form(faults: Iterable[Mapping[str, Any]]) -> InvalidForm:
    """All that pydantic found in a body or in the arguments of a call."""
    return InvalidForm(map(_finding, faults))


def said(fault: Mapping[str, Any]) -> str:
    """What is wrong with one value; without its place."""
    kind, context = str(fault["type"]), fault.get("ctx") or {}
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _KINDS:
        return f"{shown(fault.get('input'))} is not {_KINDS[kind]}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"{shown(fault.get('input'))} is not {words} {context[bound]}"
    if kind in _SAID:
        return _SAID[kind](fault.get("input"), context)
    text = str(fault["msg"]).removeprefix("Value error, ")
    return text.replace("Input should", "it should").replace("String should", "it should")


def _finding(fault: Mapping[str, Any]) -> Finding:
    place = [str(step) for step in fault["loc"] if step != "body"]
    if fault["type"] == "json_invalid":
        return Finding(path="", message=said(fault))
    if fault["type"] == "model_attributes_type" and not place:
        return Finding(path="", message=NO_JSON)
    return Finding(path=".".join(place), message=said(fault))


def _one_of(value: Any, context: Mapping[str, Any]) -> str:
    # pydantic lists them as 'a', 'b' or 'c'.
    known = [name for name in str(context["expected"]).split("'") if name.strip(" ,") not in ("", "or")]
    near = nearest(value, known) if isinstance(value, str) else None
    guess = f"; did you mean '{near}'?" if near else ""
    return f"{shown(value)} is not one of {', '.join(known)}{guess}"


def _no_json(value: Any, context: Mapping[str, Any]) -> str:
    reason = str(context.get("error", "it cannot be read"))
    return f"the body is not JSON: {reason[:1].lower()}{reason[1:]}"


_PLAIN = {"extra_forbidden": NO_FIELD, "missing": "it is missing; give it"}
_WHOLE, _REAL, _MANY, _TREE = "a whole number", "a number", "a list", "an object"
_KINDS = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float", "int_parsing_size"), _WHOLE),
    **dict.fromkeys(("float_parsing", "float_type", "finite_number"), _REAL),
    **dict.fromkeys(("list_type", "tuple_type"), _MANY),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), _TREE),
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false"),
    "string_type": "a text",
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
    "greater_than": ("over", "gt"),
    "less_than": ("under", "lt"),
}
_SAID: Mapping[str, Callable[[Any, Mapping[str, Any]], str]] = {
    "literal_error": _one_of,
    "enum": _one_of,
    "json_invalid": _no_json,
}

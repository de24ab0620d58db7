"""What the type hints of tasks mean: checks of values, parts of results, and words for people.

Stricter than pydantic's own rules: true is no number, a number is no text, a path is no file.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    PlainValidator,
    Strict,
    TypeAdapter,
    ValidationError,
)

from restrike.workflow.values import Clip, Sound

Hint = Any

_WORDS: Mapping[Hint, str] = {
    Clip: "a picture or clip",
    Sound: "a sound",
    Path: "a file",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
    Any: "any value",
}
# What pydantic builds from plain values by itself; of any other class it takes instances only.
_PYDANTICS_OWN = (type(None), list, dict, tuple, enum.Enum, BaseModel)


def checked(hint: Hint, value: Any) -> Any:
    """The value as the hint takes it, converted only where nothing is lost: "4" and 4.0 to 4.

    Raises:
        ValueError: one line that says what is taken.
    """
    try:
        return _adapter(_Hashable(hint)).validate_python(value)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        place = "".join(f"[{step}]" for step in _place(faults[0]["loc"], value))
        said = " or ".join(dict.fromkeys(_sentence(fault["msg"]) for fault in faults[:3]))
        raise ValueError(f"{place}: {said}" if place else said) from error


class _Hashable:
    """A hint as a cache key; some that are `Annotated` have no hash of their own."""

    def __init__(self, hint: Hint) -> None:
        self.hint = hint

    def __hash__(self) -> int:
        return hash(repr(self.hint))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashable) and self.hint == other.hint


@cache
def _adapter(key: _Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(_strict(key.hint))


def _strict(hint: Hint) -> Hint:
    """The hint with our rules in place of pydantic's, at every depth."""
    if hint is int:
        return Annotated[int, BeforeValidator(_no_boolean)]
    if hint is float:
        return Annotated[float, BeforeValidator(_no_boolean), AllowInfNan(False)]
    if hint in (bool, str):
        return Annotated[hint, Strict()]
    if is_typeddict(hint):
        return Annotated[dict[str, Any], AfterValidator(lambda value: _table(hint, value))]
    if hint is not Any and isinstance(hint, type) and not issubclass(hint, _PYDANTICS_OWN):
        return Annotated[Any, PlainValidator(lambda value: _instance(hint, value))]
    return _strict_parts(hint)


def _strict_parts(hint: Hint) -> Hint:
    origin: Any = get_origin(hint)
    parts = get_args(hint)
    if origin is Annotated:
        return Annotated[(_strict(parts[0]), *parts[1:])]
    if origin in (Union, types.UnionType):
        return Union[tuple(_strict(part) for part in parts)]  # noqa: UP007  (built from a tuple)
    if origin in (list, dict, tuple):
        return cast(Any, origin)[tuple(part if part is ... else _strict(part) for part in parts)]
    return hint


def _table(hint: Hint, value: dict[str, Any]) -> dict[str, Any]:
    parts = get_type_hints(hint, include_extras=True)
    if set(value) != set(parts):
        raise ValueError(f"should be a table of {', '.join(parts)}")
    return {name: checked(part, value[name]) for name, part in parts.items()}


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("should be a number, not true or false")
    return value


def _instance(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, kind):
        how = "; give it as $asset.PATH" if kind is Path else ""
        raise ValueError(f"should be {words(kind)}, not {_what(value)}{how}")
    return value


def _what(value: Any) -> str:
    named = {**_WORDS, list: "a list", dict: "a table"}
    # The type itself, so that true is no whole number.
    return named.get(type(value), type(value).__name__)


def _place(location: tuple[Any, ...], value: Any) -> list[Any]:
    """The part of pydantic's location that exists in the value; it also names members of unions."""
    place: list[Any] = []
    for step in location:
        named = isinstance(value, Mapping) and step in value
        counted = isinstance(value, list | tuple) and isinstance(step, int) and step < len(value)
        if named or counted:
            value = value[step]
            place.append(step)
    return place


def _sentence(message: str) -> str:
    message = message.removeprefix("Value error, ").removeprefix("Input ")
    return message[0].lower() + message[1:]


def bare(hint: Hint) -> Hint:
    """The hint without its limits."""
    return bare(get_args(hint)[0]) if get_origin(hint) is Annotated else hint


def words(hint: Hint) -> str:
    """What a value of the hint is, for people: `a whole number from 1 to 64`, `one of left, right`."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        said = next((part for part in parts[1:] if isinstance(part, str)), None)
        return said or words(parts[0]) + _limits(parts[1:])
    if origin in (Union, types.UnionType):
        return " or ".join(words(part) for part in parts if part is not type(None))
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin is list:
        return f"a list, each {words(parts[0])}"
    if origin is dict:
        return f"a table, each {words(parts[1])}"
    if is_typeddict(hint):
        return f"a table of {', '.join(get_type_hints(hint))}"
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _limits(metadata: Sequence[Any]) -> str:
    found: dict[str, Any] = {}
    for entry in metadata:
        for part in (entry, *getattr(entry, "metadata", ())):
            found |= {name: getattr(part, name) for name in _SAID if getattr(part, name, None) is not None}
    if "ge" in found and "le" in found:
        return f" from {found['ge']:g} to {found['le']:g}"
    if found.get("min_length") == 1:
        return ", not empty"
    return "".join(f"{_SAID[name]}{limit:g}" for name, limit in found.items())


_SAID = {
    "ge": ", at least ",
    "gt": " above ",
    "le": ", at most ",
    "lt": " below ",
    "min_length": ", at least ",
}

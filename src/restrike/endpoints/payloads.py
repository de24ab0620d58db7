"""The types of payloads and answers: their schemas, their fields, and JSON that is held against them.

A value that does not fit is refused with the name of its field, before any handler is entered.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.dataclasses import dataclass as checked_dataclass
from pydantic_core import to_jsonable_python

from restrike.endpoints.declaration import Handler, Varies
from restrike.errors import Finding, Refused

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

ROOT = "payload"
PICTURE = "picture"
"""The `format` of a field for a picture, in schemas."""
Pictures = Callable[[str], Path]
"""Finds the file of a picture that a payload names."""


def _pixels(given: Any, info: ValidationInfo) -> Any:
    from restrike.media import read_picture

    find: Pictures = info.context or Path
    return read_picture(find(given)) if isinstance(given, str) else given


Pixels = Annotated[
    Any,
    BeforeValidator(_pixels),
    WithJsonSchema({"type": "string", "format": PICTURE, "description": "a picture's file"}),
]
"""A payload field for a picture: the name of its file outside, HWC uint8 pixels inside."""


class InvalidPayload(Refused):
    """A payload does not have the form that its handler takes."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self._findings = tuple(findings)
        super().__init__("; ".join(map(str, findings)))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each field that does not fit, with what is wrong with it."""
        return self._findings


@dataclass(frozen=True, kw_only=True)
class PayloadField:
    """One field of a payload: the values that it is marked with, if it is, and what it is unsaid.

    `usual` is its default, or its first example; `has_usual` is False when it has neither.
    """

    name: str
    varies: tuple[Any, ...] | None
    usual: Any
    has_usual: bool


@dataclass(frozen=True)
class PayloadType:
    """What a handler takes: a pydantic model or a dataclass."""

    cls: type

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.cls)

    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        return self._adapter.json_schema()

    def read(self, given: object) -> Any:
        """The payload of plain values; raises InvalidPayload with every field that does not fit."""
        try:
            return self._adapter.validate_python(given, extra="forbid")
        except ValidationError as error:
            raise InvalidPayload([_finding(dict(each)) for each in error.errors()]) from error

    def read_json(self, text: str, pictures: Pictures = Path) -> Any:
        """The payload of a JSON text, in which `pictures` finds those that it names; raises as `read`."""
        try:
            return self._adapter.validate_json(text, extra="forbid", context=pictures)
        except ValidationError as error:
            raise InvalidPayload([_finding(dict(each)) for each in error.errors()]) from error

    def plain(self, payload: Any) -> Any:
        """The payload as plain JSON values."""
        return to_jsonable_python(payload, fallback=lambda value: f"<{type(value).__name__}>")

    def fields(self) -> tuple[PayloadField, ...]:
        """Its fields, in the order in which they are declared."""
        return tuple(_field(name, info) for name, info in _infos(self.cls).items())


def payload_type(handler: Handler) -> PayloadType:
    """The type of the payload that a handler takes; raises TypeError or NameError with what is wrong."""
    parameters = list(inspect.signature(handler.function).parameters.values())
    named = parameters[1:] if handler.method else parameters
    if len(named) != 2:
        raise TypeError("takes (ctx, payload), and nothing else")
    found = _evaluated(handler, named[1].annotation)
    if not (inspect.isclass(found) and (issubclass(found, BaseModel) or dataclasses.is_dataclass(found))):
        raise TypeError(f"'{named[1].name}' is neither a pydantic model nor a dataclass by its type")
    return PayloadType(found)


def answer_schema(handler: Handler) -> dict[str, Any]:
    """The JSON schema of what a handler returns, {} when it does not say; raises TypeError or NameError."""
    annotation = inspect.signature(handler.function).return_annotation
    if annotation is inspect.Signature.empty:
        return {}
    return TypeAdapter(_evaluated(handler, annotation)).json_schema()


def plain_answer(value: Any) -> Any:
    """What a handler returned as plain JSON values; raises TypeError for what JSON cannot hold."""
    try:
        return to_jsonable_python(value)
    except ValueError as error:
        raise TypeError(f"it returned what JSON cannot hold: {error}") from error


def _evaluated(handler: Handler, annotation: Any) -> Any:
    # This one alone: the others may name what is not imported where an endpoint is only looked at.
    if not isinstance(annotation, str):
        return annotation
    module = sys.modules[handler.function.__module__]
    return eval(annotation, vars(module))  # the annotation is code of the same file


def _infos(cls: type) -> Mapping[str, FieldInfo]:
    if issubclass(cls, BaseModel):
        return cls.model_fields
    return checked_dataclass(cls).__pydantic_fields__  # pyright: ignore[reportAttributeAccessIssue]


def _field(name: str, info: FieldInfo) -> PayloadField:
    marks = [mark.values for mark in info.metadata if isinstance(mark, Varies)]
    usual, has_usual = None, True
    if not info.is_required():
        usual = info.get_default(call_default_factory=True, validated_data={})
    elif info.examples:
        usual = info.examples[0]
    else:
        has_usual = False
    return PayloadField(name=name, varies=marks[0] if marks else None, usual=usual, has_usual=has_usual)


def _finding(error: Mapping[str, Any]) -> Finding:
    place = ".".join((ROOT, *map(str, error["loc"])))
    given = error.get("input")
    shown = (
        f", not {given!r}"
        if isinstance(given, bool | int | float | str) and error["type"] != "missing"
        else ""
    )
    return Finding(path=place, message=f"{error['msg'][:1].lower()}{error['msg'][1:]}{shown}")

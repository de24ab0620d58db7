"""Holds a payload against the JSON schema of its type, as a server does that does not import the type.

What only the type's own code knows is checked where that runs, in a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator, core_schema
from pydantic_core import ValidationError as PydanticError
from referencing import Registry

from restrike.endpoints.payloads import PICTURE, ROOT, InvalidPayload
from restrike.errors import Finding, Refused, RestrikeError

_MOST = 100
_OF_NAMES = ("properties", "$defs", "dependentSchemas")
_OF_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_OF_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
# A set's values may come twice in JSON: they are taken as one.
_LEFT_OUT = ("uniqueItems", "patternProperties")


def check_payload(schema: Mapping[str, Any], payload: Any, picture: Callable[[str], object]) -> None:
    """Raise InvalidPayload with each field that does not fit; `picture` raises for one that is not there."""
    pictures = FormatChecker(formats=())
    pictures.checks(PICTURE, raises=RestrikeError)(lambda text: _is_there(text, picture))
    strict = _strict(schema)
    # A registry of its own: a schema that refers elsewhere makes no server fetch anything.
    checker = _Validator(strict, format_checker=pictures, registry=Registry())
    try:
        errors = list(islice(checker.iter_errors(payload), _MOST))
    except RecursionError as error:
        raise Refused(f"{ROOT}: it is nested too deep") from error
    if errors:
        # Each of several missing fields is an error that names them all.
        raise InvalidPayload(list(dict.fromkeys(finding for error in errors for finding in _findings(error))))


def _is_there(text: object, picture: Callable[[str], object]) -> bool:
    if isinstance(text, str):
        picture(text)
    return True


def _strict(schema: Any) -> Any:
    """The schema with every object closed, as payloads are read: no field is dropped without a word."""
    if not isinstance(schema, Mapping):
        return schema
    found = {name: _closed(name, value) for name, value in schema.items() if name not in _LEFT_OUT}
    if "properties" in found:
        found.setdefault("additionalProperties", False)
    return found


def _closed(name: str, value: Any) -> Any:
    if name in _OF_NAMES and isinstance(value, Mapping):
        return {each: _strict(schema) for each, schema in value.items()}
    if name in _OF_MANY and isinstance(value, list):
        return [_strict(schema) for schema in value]
    return _strict(value) if name in _OF_ONE else value


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
        return None  # one that only Python's own engine knows; the worker asks that


def _check_pattern(_: Any, pattern: str, given: Any, schema: Any) -> Iterator[ValidationError]:
    """As pydantic does it, in time that grows with the text alone; Python's own engine promises no such."""
    checker = _pattern(pattern)
    if checker is None or not isinstance(given, str):
        return
    try:
        checker.validate_python(given)
    except PydanticError:
        yield ValidationError(f"should match pattern '{pattern}'")


def _check_multiple(validator: Any, step: Any, given: Any, schema: Any) -> Iterator[ValidationError]:
    """As JSON Schema has it; a whole number that no float can hold is none of a fraction's multiples."""
    try:
        yield from _MULTIPLE(validator, step, given, schema)
    except OverflowError:
        yield ValidationError(f"is too large to be a multiple of {step}")


_MULTIPLE = Draft202012Validator.VALIDATORS["multipleOf"]
_Validator = extend(Draft202012Validator, {"pattern": _check_pattern, "multipleOf": _check_multiple})


def _findings(error: ValidationError) -> Iterator[Finding]:
    # Of several types the one that comes nearest says what is wrong.
    found = best_match([error]) or error
    place = ".".join((ROOT, *map(str, found.absolute_path)))
    schema: Any = found.schema
    named: Any = found.validator_value
    given: Any = found.instance
    if found.validator == "additionalProperties" and named is False:
        unknown = [name for name in given if name not in schema.get("properties", {})]
        yield from (Finding(path=f"{place}.{name}", message="there is no such field") for name in unknown)
    elif found.validator == "required":
        missing = [name for name in named if name not in given]
        yield from (Finding(path=f"{place}.{name}", message="field required") for name in missing)
    elif isinstance(found.cause, RestrikeError):
        yield Finding(path=place, message=found.cause.message)
    else:
        yield Finding(path=place, message=found.message[:500])

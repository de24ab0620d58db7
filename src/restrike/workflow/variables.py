"""The variables of a workflow: what they may be, and what a run gives them.

A text is read as the type of its variable; any other value must be of that type already.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from pydantic import JsonValue, ValidationError

from restrike.workflow.definition import TypeName, VariableSpec
from restrike.workflow.findings import Findings, Place, shown
from restrike.workflow.reading import fault_message
from restrike.workflow.references import Asset, Output, StoredPrompt, parse

Specs = Mapping[str, VariableSpec]
VARIABLES = "variables"
_SPEC_KEYS = {"type", "default", "choices"}
_WORDS: Mapping[TypeName, str] = {
    "text": "a text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list",
    "table": "a table",
    "file": "a file: $asset.PATH or $output.WORKFLOW/RUN/FILE",
}


def specs_of(
    variables: Mapping[str, JsonValue], findings: Findings, place: Place = ()
) -> dict[str, VariableSpec]:
    """The spec of each variable, written as its default or as a mapping with type, default or choices."""
    found: dict[str, VariableSpec] = {}
    for name, written in variables.items():
        spec = _spec(written, (*place, VARIABLES, name), findings)
        if spec is not None:
            found[name] = spec
    return found


def is_required(spec: VariableSpec) -> bool:
    """Whether a run must give a value: there is a spec, and no default in it."""
    return "default" not in spec.model_fields_set


def from_texts(texts: Mapping[str, str], specs: Specs) -> dict[str, Any]:
    """Values that were given as texts, as on a command line: JSON or a bare word where any is allowed."""
    return {
        name: _json_or_word(text) if name in specs and specs[name].type == "any" else text
        for name, text in texts.items()
    }


def checked(value: Any, spec: VariableSpec) -> Any:
    """A value as its variable takes it; raises ValueError, saying what it must be.

    What is a reference to a stored file or prompt, or the input of a workflow step, is left as it is.
    """
    if value is None:
        if spec.default is None and not is_required(spec):
            return None
        raise ValueError(
            f"is null, and the variable is not optional; it is {_WORDS.get(spec.type, 'a value')}"
        )
    if isinstance(value, str) and _is_stored(value):
        if spec.type in ("integer", "number", "boolean", "table"):
            raise ValueError(f"{shown(value)} is not {_WORDS[spec.type]}")
        return value
    converted = _typed(value, spec.type)
    _check_range(converted, spec)
    if spec.choices is not None and not any(_same(converted, choice) for choice in spec.choices):
        raise ValueError(f"{shown(converted)} is not one of {', '.join(map(_json, spec.choices))}")
    return converted


def type_of(value: JsonValue) -> TypeName:
    """The type that a default stands for."""
    if isinstance(value, str):
        return "file" if _is_stored(value) and not value.startswith("$prompt.") else "text"
    kinds: Mapping[type, TypeName] = {
        bool: "boolean",
        int: "integer",
        float: "number",
        list: "list",
        dict: "table",
    }
    return kinds.get(type(value), "any")


def _spec(written: JsonValue, place: Place, findings: Findings) -> VariableSpec | None:
    if not isinstance(written, dict) or not (_SPEC_KEYS & set(written)):
        return VariableSpec(type=type_of(written), default=written)
    try:
        spec = VariableSpec.model_validate(written)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            at = tuple(step for step in fault["loc"] if step in written or isinstance(step, int))
            findings.add((*place, *at), fault_message(fault, VariableSpec))
        return None
    if "type" not in written:
        example = spec.default if spec.default is not None else (spec.choices or [None])[0]
        spec = spec.model_copy(update={"type": type_of(example)})
    return _consistent(spec, place, findings)


def _consistent(spec: VariableSpec, place: Place, findings: Findings) -> VariableSpec | None:
    before = len(findings.found)
    if spec.type not in ("integer", "number"):
        for name in ("minimum", "maximum", "multiple_of"):
            if getattr(spec, name) is not None:
                findings.add((*place, name), f"has no effect on a variable of type {spec.type}")
    if spec.minimum is not None and spec.maximum is not None and spec.minimum > spec.maximum:
        findings.add((*place, "minimum"), f"{spec.minimum:g} is above the maximum {spec.maximum:g}")
    for index, choice in enumerate(spec.choices or ()):
        _try(lambda choice=choice: _typed(choice, spec.type), (*place, "choices", index), findings)
    if spec.default is not None and len(findings.found) == before:
        _try(lambda: checked(spec.default, spec), (*place, "default"), findings)
    return spec if len(findings.found) == before else None


def _try(check: Callable[[], Any], place: Place, findings: Findings) -> None:
    try:
        check()
    except ValueError as error:
        findings.add(place, str(error))


def _is_stored(text: str) -> bool:
    try:
        return isinstance(parse(text), Asset | Output | StoredPrompt)
    except ValueError:
        return False


def _typed(value: Any, kind: TypeName) -> Any:
    try:
        return _READERS[kind](value)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{shown(value)} is not {_WORDS[kind]}") from None


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return value if isinstance(value, str) else _json(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError
        return int(value)
    return int(value.strip()) if isinstance(value, str) else int(_instance(value, int))


def _number(value: Any) -> int | float:
    if isinstance(value, str):
        return float(value)
    if isinstance(value, bool):
        raise TypeError
    return _instance(value, int | float)


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower(), value) is True or _false(value)
    return _instance(value, bool)


def _false(text: str) -> bool:
    if text.strip().lower() != "false":
        raise ValueError
    return False


def _of_json(kind: Any) -> Callable[[Any], Any]:
    return lambda value: _instance(json.loads(value) if isinstance(value, str) else value, kind)


def _file(value: Any) -> Any:
    raise ValueError


def _instance(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError
    return value


_READERS: Mapping[TypeName, Callable[[Any], Any]] = {
    "text": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "list": _of_json(list),
    "table": _of_json(dict),
    "file": _file,
    "any": lambda value: value,
}


def _check_range(value: Any, spec: VariableSpec) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    if spec.minimum is not None and not value >= spec.minimum:
        raise ValueError(f"{value:g} is below the minimum {spec.minimum:g}")
    if spec.maximum is not None and not value <= spec.maximum:
        raise ValueError(f"{value:g} is above the maximum {spec.maximum:g}")
    if spec.multiple_of is not None and not _on_grid(value, spec.multiple_of):
        raise ValueError(f"{value:g} is not a multiple of {spec.multiple_of:g}{_nearest(value, spec)}")


def _on_grid(value: float, grid: float) -> bool:
    # In decimal fractions, as a person means them: 0.3 is a multiple of 0.1.
    return math.isfinite(value) and not Fraction(str(value)) % Fraction(str(grid))


def _nearest(value: float, spec: VariableSpec) -> str:
    if not math.isfinite(value):
        return ""
    grid = Fraction(str(spec.multiple_of))
    nearest = round(Fraction(str(value)) / grid) * grid
    if spec.minimum is not None and nearest < Fraction(str(spec.minimum)):
        nearest += grid
    if spec.maximum is not None and nearest > Fraction(str(spec.maximum)):
        nearest -= grid
    return f"; the nearest is {float(nearest):g}"


def _same(value: Any, choice: Any) -> bool:
    return value == choice and isinstance(value, bool) == isinstance(choice, bool)


def _json_or_word(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

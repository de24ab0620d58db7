"""Tasks on text: templates, joining, choosing."""

from __future__ import annotations

import random
import re
import string
from typing import Annotated

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks.registry import task

Scalar = str | int | float | bool
Weights = list[Annotated[float, Field(ge=0)]]
_LONG = re.compile(r"\d{4}")  # a width or precision of thousands would fill the memory
Parts = Annotated[list[Scalar], Field(max_length=10_000)]


@task("text.template", epoch="1")
def template(template: str, values: dict[str, Scalar]) -> str:
    """Put values into a text.

    Args:
        template: Names in braces are replaced, with a format after a colon where wanted, such as
            `{count:03d}`; `{{` is a brace.
        values: A value for every name; one that the text does not use is refused.

    Returns:
        The text.

    Example:
        task: text.template
        arguments: {template: "a {colour} {shape}", values: {colour: red, shape: circle}}
    """
    out: list[str] = []
    used: set[str] = set()
    try:
        for literal, name, form, conversion in string.Formatter().parse(template):
            out.append(literal)
            if name is not None:
                out.append(_formatted(_value(name, values), form or "", conversion))
                used.add(name)
    except ValueError as error:
        raise Refused(f"the template does not hold: {error}") from error
    unused = [name for name in values if name not in used]
    if unused:
        raise Refused(f"the template does not use {', '.join(unused)}")
    return "".join(out)


def _value(name: str, values: dict[str, Scalar]) -> Scalar:
    # Names only: Python's own formatting would follow attributes and items too.
    if name not in values:
        raise Refused(f"the template asks for '{name}'; there are {', '.join(values) or 'no values'}")
    return values[name]


def _formatted(value: Scalar, form: str, conversion: str | None) -> str:
    if conversion is not None or _LONG.search(form):
        raise ValueError(f"'{form or conversion}' is no format that is known here")
    return format(value, form)


@task("text.join", epoch="1")
def join(parts: Parts, separator: str = ", ") -> str:
    """Join texts and numbers into one text.

    Args:
        parts: In order; empty texts are left out.
        separator: What stands between them.

    Returns:
        The text.

    Example:
        task: text.join
        arguments: {parts: [$var.subject, on a black background], separator: " "}
    """
    return separator.join(str(part) for part in parts if part != "")


@task("text.split", epoch="1")
def split(text: str, separator: Annotated[str, Field(min_length=1)] = "\n") -> list[str]:
    """Cut a text into parts.

    Args:
        text: What is cut.
        separator: What stands between the parts; a line break unless said otherwise.

    Returns:
        A list of texts without spaces around them; empty ones are left out.

    Example:
        task: text.split
        arguments: {text: $prompt.scenes}
    """
    return [part.strip() for part in text.split(separator) if part.strip()]


@task("text.choose", epoch="1", draws=True)
def choose(
    options: Annotated[list[str], Field(min_length=1)], weights: Weights | None = None, *, seed: int
) -> str:
    """Draw one of several texts by the step's seed.

    Args:
        options: What is drawn from.
        weights: How often each is drawn, relative to the others; left out, all alike.

    Returns:
        The text that was drawn.

    Example:
        task: text.choose
        arguments: {options: [a red circle, a blue star], weights: [3, 1]}
        seed: 7
    """
    if weights is None:
        weights = [1.0] * len(options)
    if len(weights) != len(options) or sum(weights) <= 0:
        raise Refused(
            f"{len(options)} options need as many weights, not all of them zero; there are {weights}"
        )
    # `random` of a seeded generator is the one method whose numbers Python promises to keep.
    left = random.Random(seed).random() * sum(weights)
    for option, weight in zip(options, weights, strict=True):
        left -= weight
        if left < 0:
            return option
    return next(option for option, weight in zip(reversed(options), reversed(weights), strict=True) if weight)

"""Tasks on numbers: arithmetic that is written out, and numbers drawn by the seed."""

from __future__ import annotations

import ast
import math
import operator
import random
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks.registry import task

Number = int | float
_LIMIT = 2**53

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "max": max,
    "min": min,
    "round": round,
    "sqrt": math.sqrt,
}


@task("number.calculate", epoch="1")
def calculate(
    expression: Annotated[str, Field(max_length=1000)], values: dict[str, Number] | None = None
) -> Number:
    """Calculate an expression.

    Args:
        expression: With `+ - * / // % **`, brackets, and abs, ceil, floor, max, min, round, sqrt.
        values: A number for every name in it.

    Returns:
        The number; whole where only whole numbers come together, up to 2^53.

    Example:
        task: number.calculate
        arguments: {expression: "round(seconds * fps / 4) * 4 + 1", values: {seconds: 2, fps: 8}}
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        return _bounded(_result(tree.body, values or {}))
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise Refused(f"'{expression}' is no expression") from error
    except (ArithmeticError, ValueError, TypeError) as error:
        raise Refused(f"'{expression}' has no result: {error}") from error


def _result(node: ast.expr, values: Mapping[str, Number]) -> Number:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            if name not in values:
                raise Refused(f"there is no '{name}' among the values ({', '.join(values) or 'none'})")
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_result(operand, values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            a, b = _result(left, values), _result(right, values)
            if isinstance(op, ast.Pow) and abs(b) > 64:
                raise Refused(f"an exponent of {b:g} is too large; 64 is the limit")
            return _bounded(_BINARY[type(op)](a, b))
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*(_result(part, values) for part in parts)))
    raise Refused(f"'{ast.unparse(node)}' is not arithmetic")


def _bounded(value: Any) -> Number:
    if isinstance(value, complex) or not math.isfinite(value):
        raise Refused("the result is no real number")
    if isinstance(value, int) and abs(value) > _LIMIT:
        raise Refused("a whole number grew beyond 2^53")
    return value


@task("number.draw", epoch="1", draws=True)
def draw(minimum: Number = 0.0, maximum: Number = 1.0, *, seed: int) -> Number:
    """Draw a number by the step's seed.

    Args:
        minimum: The least that is drawn.
        maximum: The most that is drawn.

    Returns:
        A whole number when both limits are whole, each as likely as the others; else a number between them.

    Example:
        task: number.draw
        arguments: {minimum: 1, maximum: 6}
        seed: random
    """
    if minimum > maximum:
        raise Refused(f"minimum {minimum:g} is above maximum {maximum:g}")
    share = random.Random(seed).random()
    if isinstance(minimum, int) and isinstance(maximum, int):
        return minimum + int(share * (maximum - minimum + 1))
    return minimum + share * (maximum - minimum)

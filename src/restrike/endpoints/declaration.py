"""`@endpoint`: what serving code says of itself. Runs none of it and imports no torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

MARK = "restrike_endpoint"
OUTSIDE_HANDLERS = ("setup", "shutdown")

T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A place for a model, filled from outside: with a card's name, a checkpoint folder or a hub id.

    `tasks` are those that the model must serve; `default` is what fills the slot when nothing else is given,
    "" when something must be.
    """

    tasks: tuple[str, ...] = ()
    default: str = ""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a machine must have for an endpoint to be served there: GPUs, cores, bytes of memory in all."""

    gpus: int = 0
    gpu_memory_bytes: int = 0
    cpus: int = 1
    memory_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """That the calls which the handlers make of a slot's card are worth compiling, and for which payloads.

    The rows of the warm plan are all combinations of the values that payload fields are marked with
    (`Varies`), or `rows` when given, each the values of some fields, for the handlers that have them. An
    `excluding` entry leaves out each row that has all of its values. `slot` may be left out when there is
    one; `targets` are the card's components, none meaning all that it declares.
    """

    slot: str = ""
    targets: tuple[str, ...] = ()
    excluding: tuple[Mapping[str, Any], ...] = ()
    rows: tuple[Mapping[str, Any], ...] | None = None


class Varies:
    """Marks a payload field, as `Annotated[int, Varies(1, 17)]`: the values for which calls are compiled."""

    def __init__(self, *values: Any) -> None:
        self.values = values


@dataclass(frozen=True, kw_only=True)
class Handler:
    """One function that takes a payload. `method` is its name in a class, None for a function by itself."""

    name: str
    function: Callable[..., Any]
    method: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Endpoint:
    """A declared function or class."""

    name: str
    target: Callable[..., Any]
    slots: Mapping[str, Slot] = field(default_factory=dict)
    resources: Resources = Resources()
    compiled: Compiled | None = None

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """What takes payloads: the function itself, or each public method but setup and shutdown."""
        if not inspect.isclass(self.target):
            return {self.name: Handler(name=self.name, function=self.target)}
        found = inspect.getmembers(self.target, inspect.isfunction)
        return {
            name: Handler(name=name, function=function, method=name)
            for name, function in found
            if not name.startswith("_") and name not in OUTSIDE_HANDLERS
        }

    @property
    def compiled_slot(self) -> str | None:
        """The slot whose card is compiled; None when nothing is, or it is not said which."""
        if self.compiled is None:
            return None
        return self.compiled.slot or (next(iter(self.slots)) if len(self.slots) == 1 else None)

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.target) or "").partition("\n")[0]


def endpoint(
    *,
    slots: Mapping[str, Slot] | None = None,
    resources: Resources | None = None,
    compile: Compiled | None = None,
) -> Callable[[T], T]:
    """Declare a function `(ctx, payload)`, or a class with such methods, as an endpoint.

    A class may have `setup(self, ctx)`, called once before its first payload, and `shutdown(self)`. What is
    wrong with a declaration is told when it is found, all of it at once.
    """

    def declare(target: T) -> T:
        declared = Endpoint(
            name=target.__name__,
            target=target,
            slots=dict(slots or {}),
            resources=resources or Resources(),
            compiled=compile,
        )
        setattr(target, MARK, declared)
        return target

    return declare

"""A function by its address: a card names its loaders so, and imports no torch to be read."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Deferred:
    """`module:function`, imported when it is first called; `arguments` are appended to the caller's.

    It is a value: two cards that name the same functions are equal.
    """

    target: str
    arguments: tuple[Any, ...] = ()

    def __call__(self, *given: Any) -> Any:
        """What the function returns; raises ImportError or AttributeError when there is none."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)(*given, *self.arguments)

"""Stand-ins for heavy libraries, so that a file can be looked at where they are missing or slow.

Only the import statements of the one file see them; a library that this process has loaded is never replaced.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

HEAVY = ("accelerate", "diffusers", "peft", "torch", "torchao", "torchvision", "transformers", "triton")
_OURS = tuple(f"restrike.{part}" for part in ("api", "engine", "loops", "mint", "models"))


class Stub:
    """Whatever a heavy library might hold: it can be named, called, subclassed, and computes nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Stub:
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(f"{self._name}.{name}")

    def __call__(self, *given: Any, **_: Any) -> Any:
        # As a decorator it leaves what it decorates as it is.
        if len(given) == 1 and callable(given[0]) and not isinstance(given[0], Stub):
            return given[0]
        return Stub(f"{self._name}()")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __getitem__(self, item: Any) -> Stub:
        return self

    def __or__(self, other: Any) -> Stub:
        return self

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"<{self._name}, not loaded>"


class StubModule(ModuleType):
    """A heavy module, by name alone."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(f"{self.__name__}.{name}")


def stubbed_builtins() -> dict[str, Any]:
    """The built-in names for a module whose imports of heavy libraries are answered by stand-ins."""
    return {**vars(builtins), "__import__": _import}


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    if level == 0 and _is_heavy(name):
        return StubModule(name if fromlist else name.partition(".")[0])
    if level == 0 and name == "restrike" and fromlist:
        return _light_names(fromlist)
    return builtins.__import__(name, globals, locals, fromlist or (), level)


def _is_heavy(name: str) -> bool:
    top = name.partition(".")[0]
    asked = top if top in HEAVY else name if name.startswith(_OURS) else None
    return asked is not None and sys.modules.get(asked) is None


def _light_names(names: Sequence[str]) -> Any:
    """`from restrike import ...`: what would load torch, and has not, is stood in for."""
    import restrike

    found = ModuleType("restrike")
    for name in names:
        home = restrike.home_of(name)
        if home is not None and _is_heavy(home):
            setattr(found, name, Stub(f"restrike.{name}"))
            continue
        real = builtins.__import__("restrike", fromlist=(name,))
        if hasattr(real, name):  # else the statement itself raises ImportError
            setattr(found, name, getattr(real, name))
    return found

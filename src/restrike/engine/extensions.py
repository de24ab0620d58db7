"""Extensions of an engine: observers that only look, interceptors that may replace a forward.

An extension is chosen when an engine is made, never by a request. Its memory is made anew for each picture
and guidance branch, and dropped with it; an extension that keeps state anywhere else breaks interleaving.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from restrike.errors import Refused, Unknown
from restrike.loops.contract import StepPlan, Tensors

GROUP = "restrike.extensions"


@runtime_checkable
class Observer(Protocol):
    """Reads what happened; must not write into what it is shown."""

    @property
    def name(self) -> str:
        """Unique among the extensions of an engine."""
        ...

    def begin(self) -> Any:
        """The memory of one picture."""
        ...

    def observe(self, memory: Any, plan: StepPlan, outputs: Tensors, seconds: float) -> None:
        """Called after each step."""
        ...

    def report(self, memory: Any) -> tuple[str, ...]:
        """What to tell the user when the picture ends: one line each."""
        ...


@dataclass(frozen=True, kw_only=True)
class ForwardCall:
    """One forward that is about to run: its step, guidance branch and tensors."""

    plan: StepPlan
    branch: str
    inputs: Tensors


@runtime_checkable
class Interceptor(Protocol):
    """May answer in place of a forward."""

    @property
    def name(self) -> str:
        """Unique among the extensions of an engine."""
        ...

    @property
    def alters(self) -> bool:
        """Whether its answers can differ from the model's."""
        ...

    def begin(self) -> Any:
        """The memory of one branch of one picture."""
        ...

    def intercept(self, memory: Any, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        """Return the velocity, by calling `forward` or otherwise."""
        ...


Extension = Observer | Interceptor


@dataclass(kw_only=True)
class ExtensionMemory:
    """All extension memory of one picture; lives and dies with its run."""

    extensions: tuple[Extension, ...]
    observed: dict[str, Any] = field(default_factory=dict)
    intercepted: dict[tuple[str, str], Any] = field(default_factory=dict)

    def forward(self, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        """Run a forward through all interceptors, the first being the outermost."""
        for extension in reversed(self.extensions):
            if isinstance(extension, Interceptor):
                forward = self._around(extension, call, forward)
        return forward()

    def _around(
        self, extension: Interceptor, call: ForwardCall, forward: Callable[[], Tensor]
    ) -> Callable[[], Tensor]:
        key = (extension.name, call.branch)
        if key not in self.intercepted:
            self.intercepted[key] = extension.begin()
        memory = self.intercepted[key]
        return lambda: extension.intercept(memory, call, forward)

    def observe(self, plan: StepPlan, outputs: Tensors, seconds: float) -> None:
        """Show a finished step to all observers."""
        for extension in self.extensions:
            if isinstance(extension, Observer):
                memory = self.observed.setdefault(extension.name, extension.begin())
                extension.observe(memory, plan, outputs, seconds)

    def report(self) -> tuple[str, ...]:
        """All lines of all observers."""
        return tuple(
            f"{extension.name}: {line}"
            for extension in self.extensions
            if isinstance(extension, Observer) and extension.name in self.observed
            for line in extension.report(self.observed[extension.name])
        )


def altering(extensions: tuple[Extension, ...]) -> tuple[str, ...]:
    """The names of those whose answers can differ from the model's."""
    return tuple(e.name for e in extensions if isinstance(e, Interceptor) and e.alters)


def intercepting(extensions: tuple[Extension, ...]) -> tuple[str, ...]:
    """The names of those that stand between the engine and a model's forwards."""
    return tuple(e.name for e in extensions if isinstance(e, Interceptor))


def checked(extensions: tuple[Extension, ...]) -> tuple[Extension, ...]:
    """The extensions themselves; raises Refused when two of them alter the result."""
    changing = altering(extensions)
    if len(changing) > 1:
        raise Refused(f"extensions {' and '.join(changing)} both alter the result; use one of them")
    return extensions


def extension(name: str) -> Extension:
    """The installed extension of that name (entry points of the group `restrike.extensions`)."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        raise Unknown("extension", name, found)
    return found[name].load()()

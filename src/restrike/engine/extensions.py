"""Extensions of an engine: observers only look, interceptors may replace a forward, enders may end a picture.

An extension is chosen when an engine is made, never by a request. Its memory is made anew for each picture,
and dropped with it; an extension that keeps state anywhere else breaks interleaving.
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


@runtime_checkable
class Reports(Protocol):
    """An extension that has something to tell the user when the picture ends, well or not."""

    def report(self, memory: Any) -> tuple[str, ...]:
        """One line each, of one memory that `begin` made."""
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
        """The memory of one expert's guidance branch in one picture."""
        ...

    def intercept(self, memory: Any, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        """Return the velocity, by calling `forward` or otherwise."""
        ...


@runtime_checkable
class Ender(Protocol):
    """May end a picture before its last step, with the clean estimate that its loop has by then."""

    @property
    def name(self) -> str:
        """Unique among the extensions of an engine."""
        ...

    def begin(self) -> Any:
        """The memory of one picture."""
        ...

    def enough(self, memory: Any, plan: StepPlan, outputs: Tensors) -> bool:
        """Whether the picture may end after this step; asked at each, heeded from the middle one on."""
        ...


Extension = Observer | Interceptor | Ender


@dataclass(kw_only=True)
class ExtensionMemory:
    """All extension memory of one picture; lives and dies with its run.

    An observer or an ender has one memory, an interceptor one for each expert and guidance branch.
    """

    extensions: tuple[Extension, ...]
    _kept: dict[tuple[str, ...], Any] = field(default_factory=dict, init=False)

    def forward(self, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        """Run a forward through all interceptors, the first being the outermost."""
        for extension in reversed(self.extensions):
            if isinstance(extension, Interceptor):
                forward = self._around(extension, call, forward)
        return forward()

    def _around(
        self, extension: Interceptor, call: ForwardCall, forward: Callable[[], Tensor]
    ) -> Callable[[], Tensor]:
        memory = self._memory(extension, call.plan.component, call.branch)
        return lambda: extension.intercept(memory, call, forward)

    def _memory(self, extension: Extension, *part: str) -> Any:
        key = (extension.name, *part)
        if key not in self._kept:
            self._kept[key] = extension.begin()
        return self._kept[key]

    def observe(self, plan: StepPlan, outputs: Tensors, seconds: float) -> None:
        """Show a finished step to all observers."""
        for extension in self.extensions:
            if isinstance(extension, Observer):
                extension.observe(self._memory(extension), plan, outputs, seconds)

    def enough(self, plan: StepPlan, outputs: Tensors) -> bool:
        """Whether an ender ends the picture after this step: never before half of the steps are done."""
        if not self.extensions:
            return False
        done = plan.index + 1
        enders = [each for each in self.extensions if isinstance(each, Ender)]
        asked = [each.enough(self._memory(each), plan, outputs) for each in enders]
        return any(asked) and plan.total <= 2 * done < 2 * plan.total

    def report(self) -> tuple[str, ...]:
        """All that the extensions have to say, each line under the name of its extension."""
        telling = {
            extension.name: extension for extension in self.extensions if isinstance(extension, Reports)
        }
        return tuple(
            f"{': '.join((name, *part))}: {line}"
            for (name, *part), memory in self._kept.items()
            if name in telling
            for line in telling[name].report(memory)
        )


def altering(extensions: tuple[Extension, ...]) -> tuple[str, ...]:
    """The names of those whose answers can differ from the model's."""
    return tuple(e.name for e in extensions if isinstance(e, Interceptor) and e.alters)


def intercepting(extensions: tuple[Extension, ...]) -> tuple[str, ...]:
    """The names of those that stand between the engine and a model's forwards."""
    return tuple(e.name for e in extensions if isinstance(e, Interceptor))


def changing(extensions: tuple[Extension, ...]) -> tuple[str, ...]:
    """The names of those that can change the result: with other answers, or by an earlier end."""
    return (*altering(extensions), *(e.name for e in extensions if isinstance(e, Ender)))


def acting(extensions: tuple[Extension, ...]) -> tuple[str, ...]:
    """The names of those that do more than look."""
    return tuple(e.name for e in extensions if isinstance(e, Interceptor | Ender))


def checked(extensions: tuple[Extension, ...]) -> tuple[Extension, ...]:
    """The extensions themselves.

    Raises:
        Refused: one does nothing that extensions do, two have one name, or two alter the result.
    """
    for each in extensions:
        if not isinstance(each, Observer | Interceptor | Ender):
            raise Refused(f"{type(each).__name__} is no extension: it neither observes, intercepts nor ends")
    names = [each.name for each in extensions]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(f"extension '{twice}' is given twice; use it once")
    found = changing(extensions)
    if len(found) > 1:
        raise Refused(f"extensions {' and '.join(found)} both alter the result; use one of them")
    return extensions


def extension(name: str) -> Extension:
    """The installed extension of that name (entry points of the group `restrike.extensions`)."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        raise Unknown("extension", name, found)
    return found[name].load()()

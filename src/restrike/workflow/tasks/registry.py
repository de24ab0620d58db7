"""The registry of tasks: functions that a workflow step can call, with their types checked beforehand.

A task is a pure function of its arguments unless it declares side effects; the registry runs none.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, get_type_hints

from restrike.errors import Crashed, NotFound, Refused, RestrikeError, Unknown
from restrike.keys import Digest, file_digest
from restrike.keys.sources import local_sources
from restrike.workflow.tasks import hints

GROUP = "restrike.tasks"
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Task:
    """A registered function.

    `epoch` is bumped when its output changes for the same arguments. A task that `draws` takes a `seed`
    argument from its step. One with `side_effects` runs every time. `sources` are the digests of the files
    of a task that comes from outside an installed package; they are part of its identity.
    """

    name: str
    function: Callable[..., Any]
    epoch: str
    side_effects: bool = False
    draws: bool = False
    sources: tuple[Digest, ...] = ()

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Its arguments, without the seed that the step gives."""
        found = inspect.signature(self.function).parameters
        return {name: part for name, part in found.items() if not (self.draws and name == "seed")}

    def defaults(self) -> Mapping[str, Any]:
        """What an argument that is left out means, so that saying it changes no key."""
        empty = inspect.Parameter.empty
        return {name: part.default for name, part in self.parameters().items() if part.default is not empty}

    def required(self) -> tuple[str, ...]:
        """The arguments that have to be given."""
        return tuple(name for name in self.parameters() if name not in self.defaults())

    def hint(self, argument: str) -> hints.Hint:
        """The type of an argument; Any when its author gave none. `Path` is a file, keyed by its content."""
        return _hints(self.function).get(argument, Any)

    @property
    def returns(self) -> hints.Hint:
        """The type of its result, for the reference of all tasks."""
        return _hints(self.function).get("return", Any)

    def checked(self, argument: str, value: Any) -> Any:
        """A value as the argument's type takes it; raises ValueError with one line."""
        return hints.checked(self.hint(argument), value)


@cache
def _hints(function: Callable[..., Any]) -> Mapping[str, hints.Hint]:
    return get_type_hints(function, include_extras=True)


def task(
    name: str, *, epoch: str, side_effects: bool = False, draws: bool = False, depends: tuple[str, ...] = ()
) -> Callable[[F], F]:
    """Register a function as a task, under a dotted name such as `video.concat`.

    `depends` names files beside a user's own task file that its output depends on too.
    """

    if not _NAME.fullmatch(name):
        raise Refused(f"'{name}' is no name for a task; write one such as mine.blend: lower case, with a dot")

    def register(function: F) -> F:
        function.__dict__["restrike_task"] = _Declared(
            name=name, epoch=epoch, side_effects=side_effects, draws=draws, depends=depends
        )
        return function

    return register


@dataclass(frozen=True, kw_only=True)
class _Declared:
    name: str
    epoch: str
    side_effects: bool
    draws: bool
    depends: tuple[str, ...]


class Tasks:
    """The tasks that one workflow may use: the installed ones, and those of files that the user allows."""

    def __init__(self, allowed_files: tuple[Path, ...] = ()) -> None:
        self._found = dict(_installed())
        for path in allowed_files:
            for found in _from_file(path):
                if found.name in self._found:
                    raise Refused(f"'{path}' registers task '{found.name}', which exists already; rename it")
                self._found[found.name] = found

    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._found))

    def get(self, name: str) -> Task:
        """The task of that name; raises Unknown."""
        if name not in self._found:
            raise Unknown("task", name, self._found, hint="Tasks of your own come with --allow-code FILE.")
        return self._found[name]


@cache
def _installed() -> Mapping[str, Task]:
    found: dict[str, Task] = {}
    for point in entry_points(group=GROUP):
        try:
            module = point.load()
        except Exception as error:
            raise Crashed(f"the tasks of '{point.value}' cannot be imported: {error}") from error
        for registered in _in_module(module):
            if found.setdefault(registered.name, registered).function is not registered.function:
                raise Refused(f"two installed packages register task '{registered.name}'; uninstall one")
    return found


def _in_module(
    module: ModuleType, sources_of: Callable[[_Declared], tuple[Digest, ...]] = lambda declared: ()
) -> Iterator[Task]:
    for function in vars(module).values():
        declared = getattr(function, "restrike_task", None)
        if isinstance(declared, _Declared) and function.__module__ == module.__name__:
            yield Task(
                name=declared.name,
                function=function,
                epoch=declared.epoch,
                side_effects=declared.side_effects,
                draws=declared.draws,
                sources=sources_of(declared),
            )


def _from_file(path: Path) -> tuple[Task, ...]:
    if not path.is_file():
        raise NotFound(f"no task file at '{path}'")
    own = file_digest(path)
    module = _imported(path, own)
    sources = (own, *local_sources(path))
    found = tuple(_in_module(module, lambda declared: (*sources, *_beside(path, declared))))
    if not found:
        raise Refused(f"'{path}' registers no task; put @task(NAME, epoch=...) on a function")
    if file_digest(path) != own:
        raise Refused(f"'{path}' changed while it was imported; run again")
    return found


def _imported(path: Path, own: Digest) -> ModuleType:
    # The digest in the name keeps two files of one name apart, and an edited one from its former self.
    name = f"restrike_allowed_{path.stem}_{own.short}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refused(f"'{path}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses in it look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        if isinstance(error, RestrikeError):
            raise
        raise Crashed(f"'{path}' failed on import: {type(error).__name__}: {error}") from error
    return module


def _beside(path: Path, declared: _Declared) -> Iterator[Digest]:
    for name in declared.depends:
        if not (path.parent / name).is_file():
            raise NotFound(f"task '{declared.name}' of '{path}' depends on '{name}', which does not exist")
        yield file_digest(path.parent / name)

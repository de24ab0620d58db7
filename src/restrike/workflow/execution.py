"""Runs one action's operation on values: the engine for generations, functions for tasks.

It knows no keys, store or files but the ones that arguments name.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from restrike.workflow.graph import Action, FileInput
from restrike.workflow.operations.generate import Generate
from restrike.workflow.operations.pipeline import PipelineCall
from restrike.workflow.operations.task import TaskCall
from restrike.workflow.values import Clip, Sound

if TYPE_CHECKING:
    from restrike.engine.engine import Engine
    from restrike.engine.events import Event


class Engines:
    """The engine of a session: made when a generation first needs it, and kept for the next.

    It is made anew when weights that it loaded were changed where they lie, so that none are used under the
    identity of others.
    """

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._engine: Engine | None = None
        self._loaded: dict[object, str] = {}

    def engine_for(self, operation: Generate | PipelineCall) -> Engine:
        """The engine, holding none but the operation's own weights of its card."""
        if isinstance(operation, Generate):
            place = (operation.card.name, operation.card.location)
            if self._loaded.setdefault(place, operation.weights) != operation.weights:
                self._engine, self._loaded = None, {place: operation.weights}
        if self._engine is None:
            self._engine = self._make()
        return self._engine


class Executor:
    """Executes actions; the engine is asked for when a generation needs it."""

    def __init__(self, engines: Engines, watch: Callable[[str, Event], None]) -> None:
        self._engines = engines
        self._watch = watch

    def versions(self) -> Mapping[str, str]:
        """The programs that compute here, for provenance."""
        return _versions()

    def run(self, action: Action, arguments: Mapping[str, Any], check: Callable[[], None]) -> Any:
        """The value of an action; `check` is called between steps and may raise."""
        operation = action.operation
        if isinstance(operation, Generate | PipelineCall):

            def watch(event: Event) -> None:
                check()
                self._watch(action.id, event)

            value = operation.run(self._engines.engine_for(operation), arguments, action.seed, watch)
            if isinstance(operation, Generate):
                operation.check_unchanged()
            return value
        if isinstance(operation, TaskCall):
            return operation.run(arguments, action.seed)
        raise TypeError(f"no way to run {operation.label}")

    def file(self, leaf: FileInput) -> Any:
        """What a file holds: a clip, a sound, a text, or a tree of values for JSON."""
        return read_asset(leaf)


@cache
def _versions() -> Mapping[str, str]:
    return {
        "restrike": version("restrike"),
        "python": platform.python_version(),
        "torch": version("torch"),
    }


def read_asset(leaf: FileInput) -> Any:
    """Read a file that a reference names, by its suffix."""
    import json

    suffix = leaf.path.suffix.lower()
    if suffix == ".json":
        return json.loads(leaf.path.read_text(encoding="utf-8"))
    if suffix in (".txt", ".md"):
        return leaf.path.read_text(encoding="utf-8")
    if suffix in (".safetensors", ".param", ".bin", ".ttf", ".otf"):
        return leaf.path
    from restrike.media import read

    media = read(leaf.path)
    sound = media.audio and Sound(samples_CN=media.audio.samples_CN, rate_hz=media.audio.rate_hz)
    return Clip(frames_THWC=media.frames_THWC, fps=media.fps, sound=sound)

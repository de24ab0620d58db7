"""Runs one action's operation on values: the engine for generations, functions for tasks.

It knows no keys, store or files but the ones that arguments name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from restrike.engine.versions import versions
from restrike.workflow.graph import Action, FileInput
from restrike.workflow.operations.generate import Generate
from restrike.workflow.operations.pipeline import PipelineCall
from restrike.workflow.operations.task import TaskCall
from restrike.workflow.values import Clip, Sound

if TYPE_CHECKING:
    from restrike.engine.counts import Executed
    from restrike.engine.engine import Engine
    from restrike.engine.events import Event
    from restrike.engine.requests import StreamOptions


class Executor:
    """Executes actions; the engine is asked for when a generation needs it."""

    def __init__(
        self, engine: Callable[[], Engine], watch: Callable[[str, Event], None], preview_every: int = 0
    ) -> None:
        self._engine = engine
        self._watch = watch
        self._preview_every = preview_every
        self.executed: dict[str, Executed] = {}
        """How each generation was executed, by its action."""

    def versions(self, action: Action) -> Mapping[str, str]:
        """The programs that compute an action here, for provenance."""
        operation = action.operation
        return versions(operation.card.libraries if isinstance(operation, Generate) else ())

    def run(self, action: Action, arguments: Mapping[str, Any], check: Callable[[], None]) -> Any:
        """The value of an action; `check` is called between steps and may raise."""
        operation = action.operation
        if isinstance(operation, Generate | PipelineCall):
            from restrike.engine.events import Succeeded

            def watch(event: Event) -> None:
                check()
                if isinstance(event, Succeeded):
                    self.executed[action.id] = event.generation.executed
                self._watch(action.id, event)

            options = _options(self._preview_every, check)
            value = operation.run(self._engine(), arguments, action.seed, watch, options)
            if isinstance(operation, Generate):
                operation.check_unchanged()
            return value
        if isinstance(operation, TaskCall):
            return operation.run(arguments, action.seed)
        raise TypeError(f"no way to run {operation.label}")

    def file(self, leaf: FileInput) -> Any:
        """What a file holds: a clip, a sound, a text, or a tree of values for JSON."""
        return read_asset(leaf)


def _options(preview_every: int, check: Callable[[], None]) -> StreamOptions:
    from restrike.engine.requests import Cancellation, StreamOptions

    return StreamOptions(preview_every=preview_every, cancellation=Cancellation(check))


def read_asset(leaf: FileInput) -> Any:
    """Read a file that a reference names, as its kind."""
    import json

    if leaf.kind == "json":
        return json.loads(leaf.path.read_text(encoding="utf-8"))
    if leaf.kind == "text":
        return leaf.path.read_text(encoding="utf-8")
    if leaf.kind == "file":
        return leaf.path
    from restrike.media import read

    media = read(leaf.path)
    sound = media.audio and Sound(samples_CN=media.audio.samples_CN, rate_hz=media.audio.rate_hz)
    return Clip(frames_THWC=media.frames_THWC, fps=media.fps, sound=sound)

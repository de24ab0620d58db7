"""What a person sees on stderr while pictures are made: the bar, the time left, the picture as it becomes.

It only watches events; leaving it out changes nothing but the view.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from restrike.cli.blocks import Blocks, fitted, strip
from restrike.engine.events import (
    Event,
    Noticed,
    PictureFinished,
    PreviewReady,
    Started,
    StepFinished,
    Succeeded,
)

if TYPE_CHECKING:
    from restrike.cli.job import Job
    from restrike.engine.compiled.counters import CompiledReport

REDRAWS_A_SECOND = 10
PREVIEWS_A_PICTURE = 8
_MARGIN = 2
_MAX_PREVIEW_PX = 64
_MAX_FINISHED_PX = 32
_MAX_SHOWN = 4
_STRIP_FRAMES = 4
_COLOURS = ("256", "truecolor", "windows")


class Screen(Protocol):
    """Where events are shown."""

    preview_every: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *failure: object) -> None: ...

    def show(self, event: Event) -> None:
        """Show what happened."""
        ...

    def stopping(self) -> None:
        """Show that the work will stop; safe within a signal handler."""
        ...

    def aside(self) -> Any:
        """A context in which something else may write to the terminal."""
        ...


def screen_for(job: Job, preview: bool | None) -> Screen:
    """The screen that stderr allows; `preview` None shows the picture wherever it can be shown."""
    console = Console(stderr=True, highlight=False)
    if preview and not can_preview(console):
        _notice(console, "no preview: it needs a terminal with 256 colours")
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveScreen(console, job, shows_picture=can_preview(console) and preview is not False)
    return PlainScreen(console)


def can_preview(console: Console) -> bool:
    """Whether a picture of coloured characters can be shown."""
    return console.color_system in _COLOURS and not console.no_color and console.is_terminal


class PlainScreen:
    """Notices, and what cells did, a line each: stderr is a file, a pipe or a dumb terminal."""

    preview_every = 0

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        return None

    def show(self, event: Event) -> None:
        match event:
            case Noticed():
                _notice(self._console, event.message)
            case Succeeded() if event.generation.compiled.executed:
                self._console.print(answered(event.generation.compiled), soft_wrap=True)
            case _:
                pass

    def stopping(self) -> None:
        return None

    @contextmanager
    def aside(self) -> Iterator[None]:
        yield


class StepsDone(MofNCompleteColumn):
    """'6/24', and nothing while it is not known how many there will be."""

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else super().render(task)


class TimeLeft(TimeRemainingColumn):
    """'00:12 left', and nothing while it is not known."""

    def render(self, task: Task) -> Text:
        return Text() if task.time_remaining is None else super().render(task).append(" left")


class LiveScreen:
    """A bar over all steps and, where the terminal has the colours, the picture under it."""

    def __init__(self, console: Console, job: Job, *, shows_picture: bool) -> None:
        self._console, self._job, self._shows_picture = console, job, shows_picture
        steps = job.arguments.steps
        self.preview_every = max(1, -(-steps // PREVIEWS_A_PICTURE)) if shows_picture else 0
        self._progress = Progress(
            SpinnerColumn(style="cyan"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=32, complete_style="cyan", finished_style="cyan"),
            StepsDone(),
            TimeLeft(compact=True),
            console=console,
        )
        self._task: TaskID = self._progress.add_task("starting", total=None)
        self._picture: RenderableType = Text()
        self._live = self._new_live()

    def _new_live(self) -> Live:
        # stdout is data, which is not this console's to print.
        return Live(
            console=self._console,
            transient=True,
            refresh_per_second=REDRAWS_A_SECOND,
            get_renderable=self._view,
            redirect_stdout=False,
        )

    def _view(self) -> RenderableType:
        return Group(self._progress, self._picture)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._live.stop()

    def show(self, event: Event) -> None:
        match event:
            case Started():
                self._progress.update(self._task, description="loading", total=event.steps)
            case Noticed():
                _notice(self._console, event.message)
            case StepFinished():
                self._progress.update(self._task, advance=1, description=self._doing(event))
            case PreviewReady():
                self._picture = self._playing(event.frames_THWC)
            case PictureFinished():
                self._picture = Text()
                self._live.refresh()
                if self._shows_picture and len(self._job.arguments.items) <= _MAX_SHOWN:
                    self._console.print(self._finished(event.picture.frames_THWC))
            case Succeeded():
                self._console.print(Text(self._summary(event), style="dim"))
            case _:
                pass

    def _summary(self, event: Succeeded) -> str:
        made = event.generation
        frames, height_px, width_px, _ = made.picture.frames_THWC.shape
        size = f"{width_px}x{height_px}" + (f", {frames} frames" if frames > 1 else "")
        cells = f"\n{answered(made.compiled)}" if made.compiled.executed else ""
        return f"{made.card}, {size}, seed {made.seed}, {made.seconds:.1f} s{cells}"

    def _doing(self, event: StepFinished) -> str:
        items = self._job.arguments.items
        which = f"picture {items.index(event.item) + 1} of {len(items)}, " if len(items) > 1 else ""
        return f"{which}{'decoding' if event.step == event.total else 'denoising'}"

    def _playing(self, frames_THWC: Any) -> RenderableType:
        width_px, height_px = self._box()
        frames = fitted(frames_THWC, width_px, height_px)
        return Padding(Blocks(frames, self._job.arguments.fps), (1, 0, 0, _MARGIN))

    def _finished(self, frames_THWC: Any) -> RenderableType:
        """What stays on the screen: the still, or frames of the clip side by side."""
        width_px, height_px = (min(side, _MAX_FINISHED_PX) for side in self._box())
        if len(frames_THWC) > 1:
            width_px = min(width_px, max(4, (self._console.width - _MARGIN) // _STRIP_FRAMES - 1))
        frames = strip(fitted(frames_THWC, width_px, height_px), _STRIP_FRAMES)
        return Padding(Blocks(frames, 1), (1, 0, 1, _MARGIN))

    def _box(self) -> tuple[int, int]:
        """The pixels for a picture: the columns, and two a line on two thirds of the lines."""
        width, height = self._console.size
        return min(width - 2 * _MARGIN, _MAX_PREVIEW_PX), min(height * 4 // 3, _MAX_PREVIEW_PX)

    def stopping(self) -> None:
        self._progress.update(self._task, description="stopping after this step; Ctrl-C again stops now")

    @contextmanager
    def aside(self) -> Iterator[None]:
        self._live.stop()
        try:
            yield
        finally:
            # A new one: a display that is started again believes to be where it was.
            self._live = self._new_live()
            self._live.start()


def answered(compiled: CompiledReport) -> str:
    """'8 of 8 forwards by cell 154884587d3e; eager: --cells off': what ran, and how to do without."""
    forwards = compiled.executed + sum(compiled.eager.values())
    cells = ", ".join(key[:12] for key in compiled.cells)
    which = "cell" if len(compiled.cells) == 1 else "cells"
    return f"{compiled.executed} of {forwards} forwards by {which} {cells}; eager: --cells off"


def _notice(console: Console, message: str) -> None:
    console.print(Text.assemble(("notice: ", "yellow"), " ".join(message.split())), soft_wrap=True)

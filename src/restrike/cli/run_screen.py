"""What a person sees on stderr while a workflow runs: a line for each settled step, a bar for the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from restrike.cli.screen import StepsDone, TimeLeft
from restrike.engine.events import Event, Noticed, Started, StepFinished
from restrike.workflow.runner import Audited, RunEvent, StepBegan, StepEnded
from restrike.workflow.runs import StepRecord

_COLOURS = {"reused": "green", "computed": "yellow", "failed": "red", "cancelled": "red"}


class RunScreen:
    """A line for each settled step; on a terminal, a bar for the step that runs."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console, self._progress = console, progress
        self._task = progress.add_task("starting", total=None)

    def show(self, event: RunEvent) -> None:
        """A step began, ended or was audited."""
        match event:
            case StepBegan():
                self.began(event.action.id)
            case StepEnded():
                self.ended(event.record)
            case Audited():
                same = "the same bytes" if event.same else "OTHER BYTES than what is kept"
                self._console.print(
                    Text(f"  audit of {event.action}: {same}", "dim" if event.same else "red")
                )

    def show_engine(self, action: str, event: Event) -> None:
        """Progress within a generation."""
        match event:
            case Started():
                self._progress.update(self._task, total=event.steps or None)
            case StepFinished():
                self._progress.update(self._task, advance=1)
            case Noticed():
                self.noted(f"note on {action}: {event.message}")
            case _:
                pass

    def began(self, step: str) -> None:
        """A step began, or whatever else is waited for."""
        self._progress.reset(self._task, total=None, description=step)

    def ended(self, record: StepRecord) -> None:
        """A step ended."""
        self._console.print(_line(record))

    def denoised(self, what: str, *, done: int, total: int | None) -> None:
        """So many steps of a picture are done."""
        self._progress.update(self._task, description=what, completed=done, total=total)

    def noted(self, message: str) -> None:
        """Something worth knowing happened."""
        self._console.print(Text(f"  {message}", "cyan"))


def _line(record: StepRecord) -> Text:
    line = Text.assemble(f"{record.action}  ", (record.status, _COLOURS.get(record.status, "")))
    if record.status == "reused":
        line.append(f" from {record.origin}", "dim")
    else:
        line.append(f" in {record.seconds:.2f} s", "dim")
    if record.reason:
        line.append(f"  ({record.reason})", "cyan")
    return line


@contextmanager
def run_screen() -> Iterator[RunScreen]:
    """A screen for one run."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    progress = Progress(
        SpinnerColumn(style="cyan"),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=32, complete_style="cyan", finished_style="cyan"),
        StepsDone(),
        TimeLeft(compact=True),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=not console.is_terminal or console.is_dumb_terminal,
    )
    with progress:
        yield RunScreen(console, progress)

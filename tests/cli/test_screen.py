"""What a terminal shows while a picture is made, and what it does not."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from rich.progress import Progress

from restrike.cards.request import Request
from restrike.cli.job import Job, prepare
from restrike.cli.options import Options
from restrike.cli.screen import LiveScreen, PlainScreen, StepsDone, TimeLeft, can_preview, screen_for
from restrike.engine.compiled.counters import CompiledReport
from restrike.engine.engine import Engine
from restrike.engine.events import Noticed, Succeeded
from restrike.engine.requests import StreamOptions


@pytest.fixture
def job(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Job:  # pyright: ignore[reportMissingParameterType]
    monkeypatch.chdir(tmp_path)
    return prepare(Options(prompt=["a seven"], card="digits", seed=7, steps=4))


def terminal(**changes: object) -> Console:
    given = {
        "file": io.StringIO(),
        "force_terminal": True,
        "color_system": "truecolor",
        "width": 80,
        "height": 40,
    }
    return Console(**given | changes)  # pyright: ignore[reportArgumentType]


def shown(job: Job, engine: Engine, console: Console, *, shows_picture: bool) -> str:
    with LiveScreen(console, job, shows_picture=shows_picture) as screen:
        watched = StreamOptions(preview_every=screen.preview_every)
        for event in engine.stream(job.card, job.request, watched):
            screen.show(event)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_bar_the_picture_and_a_summary_are_shown(job: Job, engine: Engine) -> None:
    text = shown(job, engine, terminal(), shows_picture=True)
    assert "▀" in text
    assert "38;2;252;252;252" in text
    assert "digits, 8x8, seed 7" in text


def test_what_is_written_aside_is_not_drawn_over(job: Job) -> None:
    console = terminal()
    assert isinstance(console.file, io.StringIO)
    with LiveScreen(console, job, shows_picture=True) as screen:
        with screen.aside():
            console.file.write("x.png\n")
        drawn_after = console.file.getvalue().partition("x.png\n")[2]
    assert "\x1b[1A" not in drawn_after.partition("━")[0]


def test_without_a_picture_there_is_a_bar_alone(job: Job, engine: Engine) -> None:
    text = shown(job, engine, terminal(), shows_picture=False)
    assert "▀" not in text
    assert "4/4" in text


def test_steps_are_counted_once_their_number_is_known() -> None:
    progress = Progress(StepsDone(), TimeLeft())
    progress.add_task("starting", total=None)
    (task,) = progress.tasks
    assert [str(column.render(task)) for column in (StepsDone(), TimeLeft())] == ["", ""]
    progress.update(task.id, total=24, completed=6)
    assert str(StepsDone().render(task)).split() == ["6/24"]


def test_previews_come_at_most_eight_times_a_picture(job: Job) -> None:
    def every(steps: int) -> int:
        longer = replace(job, arguments=replace(job.arguments, steps=steps))
        return LiveScreen(terminal(), longer, shows_picture=True).preview_every

    assert [every(steps) for steps in (1, 8, 9, 50, 1000)] == [1, 1, 2, 7, 125]
    assert LiveScreen(terminal(), job, shows_picture=False).preview_every == 0


def test_several_pictures_are_counted(job: Job, engine: Engine) -> None:
    items = (0, 1)
    several = replace(
        job, request=replace(job.request, items=items), arguments=replace(job.arguments, items=items)
    )
    assert "picture 2 of 2" in shown(several, engine, terminal(), shows_picture=False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"color_system": "256"}, True),
        ({"color_system": "standard"}, False),
        ({"no_color": True}, False),
        ({"force_terminal": False}, False),
    ],
)
def test_where_a_picture_can_be_shown(changes: dict[str, object], expected: bool) -> None:
    assert can_preview(terminal(**changes)) is expected


def test_no_color_shows_no_colours(job: Job, engine: Engine) -> None:
    text = shown(job, engine, terminal(no_color=True), shows_picture=False)
    assert "\x1b[3" not in text.replace("\x1b[3J", "")


def test_without_a_terminal_only_notices_are_shown(
    job: Job, capsys: pytest.CaptureFixture[str], engine: Engine
) -> None:
    screen = screen_for(job, None)
    assert isinstance(screen, PlainScreen)
    assert screen.preview_every == 0
    with screen:
        for event in engine.stream(job.card, Request(prompt="a purple seven", seed=7)):
            screen.show(event)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("notice: ")
    assert said.err.count("\n") == 1


def test_a_notice_is_one_line_however_long(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    screen_for(job, None).show(Noticed(message="word " * 100 + "\n[red]end[/]"))
    assert capsys.readouterr().err.endswith("[red]end[/]\n")


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({}, ""),
        ({"154884587d3e99": 7}, "7 of 8 forwards by cell 154884587d3e; eager: --cells off\n"),
        (
            {"154884587d3e99": 6, "feed84587d3e99": 1},
            "7 of 8 forwards by cells 154884587d3e, feed84587d3e; eager: --cells off\n",
        ),
    ],
)
def test_that_cells_ran_is_told_and_how_to_do_without(
    job: Job, engine: Engine, cells: dict[str, int], expected: str, *, is_live: bool
) -> None:
    *_, last = engine.stream(job.card, job.request)
    assert isinstance(last, Succeeded)
    compiled = CompiledReport(cells=cells, eager={"another size": 1})
    console = terminal(color_system=None, force_terminal=is_live)
    with LiveScreen(console, job, shows_picture=False) if is_live else PlainScreen(console) as screen:
        screen.show(Succeeded(generation=replace(last.generation, compiled=compiled)))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert expected in text
    assert ("forwards by" in text) is bool(cells)

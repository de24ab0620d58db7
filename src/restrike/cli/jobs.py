"""`restrike jobs`: the jobs of a server, and all that is known of one."""

from __future__ import annotations

import json as jsons
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from restrike.cli import verbs
from restrike.cli.server_options import ServerOptions, client_of
from restrike.errors import Unknown, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from restrike.client.results import Job
    from restrike.server.jobs.model import JobState

_COLOURS = {"running": "yellow", "succeeded": "green", "failed": "red", "quarantined": "red"}


@dataclass(frozen=True, kw_only=True)
class Options(ServerOptions):
    """The options of `restrike jobs`."""

    job: Annotated[str, typer.Argument(metavar="[JOB]", help="All that is known of one job.")] = ""
    state: Annotated[str | None, typer.Option(metavar="STATE", help="Only those that are so.")] = None
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="The newest N.", show_default=True)] = 20


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "jobs", Options, jobs)


def jobs(options: Options) -> None:
    """List a server's jobs, newest first, or show one."""
    from restrike.cli.tables import show
    from restrike.cli.wait import told

    client = client_of(options)
    if options.job:
        job = client.job(options.job)
        if options.json:
            typer.echo(jsons.dumps(told(job), indent=2, ensure_ascii=False))
        else:
            show(_one(job))
        return
    found = client.jobs(state=_state(options.state), limit=options.limit)
    if options.json:
        typer.echo(jsons.dumps({"jobs": [told(job) for job in found]}, indent=2, ensure_ascii=False))
    else:
        show(_table(found)) if found else typer.echo("no jobs", err=True)


def _state(text: str | None) -> JobState | None:
    from restrike.server.jobs.model import JobState

    if text is None:
        return None
    if text not in tuple(JobState):
        raise Unknown("state", text, JobState)
    return JobState(text)


def _table(found: tuple[Job, ...]) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("job", "what", "state", "device", "created", "took"):
        # Only words are broken over lines: an id is there to be copied.
        whole = title not in ("what", "state")
        table.add_column(
            title, justify="right" if title == "took" else "left", overflow="fold", no_wrap=whole
        )
    for job in found:
        table.add_row(
            Text(job.id),
            Text(printable(job.title)),
            Text(_standing(job), _COLOURS.get(job.state, "")),
            Text(job.device or ""),
            Text(_lately(job.created)),
            Text(_took(job)),
        )
    return table


def _one(job: Job) -> RenderableType:
    from restrike.cli.following import progress_of
    from restrike.cli.tables import Rows

    rows = Rows()
    rows.add_marked(job.id, job.state, _COLOURS.get(job.state, ""), job.title)
    rows.add("created", _when(job.created))
    if job.position is not None:
        rows.add("waits for", job.why or (f"{job.position} other jobs" if job.position else "a worker"))
    if job.device is not None:
        rows.add("device", f"{job.device}: {job.why}")
        rows.add("attempt", job.attempt)
        rows.add("running for" if job.state == "running" else "took", _took(job))
    if job.progress is not None:
        rows.add("progress", progress_of(job.progress))
    if job.run is not None:
        rows.add("run", job.run)
    if job.failure is not None:
        rows.add("failure", f"{job.failure.kind}: {job.failure.reason}", "red")
        rows.add("step", job.failure.step or "none")
        rows.add("what to do", job.failure.remedy or "nothing is known")
    for step, seconds in (job.record.get("seconds") or {}).items():
        rows.add(step, _came(job, step, seconds))
        for line in _how(job, step):
            rows.add("", line)
    return rows.table


def _came(job: Job, step: str, seconds: float) -> str:
    if step in job.record.get("reused", ()):
        return "reused"
    if step in job.record.get("computed", ()):
        return f"computed in {seconds:.2f} s"
    return "not finished"


def _how(job: Job, step: str) -> tuple[str, ...]:
    """What cells and captures did in a step; nothing where an earlier server did not tell."""
    from restrike.engine.counts import executed_of

    made = job.record.get("generations", {}).get(step, {})
    return executed_of(made).told if {"compiled", "capture"} <= set(made) else ()


def _standing(job: Job) -> str:
    from restrike.cli.following import progress_of

    if job.progress is not None:
        return f"{job.state}: {progress_of(job.progress)}"
    return f"{job.state}, {job.position} ahead" if job.position else str(job.state)


def _when(time_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_s))


def _lately(time_s: float) -> str:
    """The time of what is of today, the day of what is older."""
    day, clock = _when(time_s).split()
    return clock if day == _when(time.time()).split()[0] else day


def _took(job: Job) -> str:
    if job.started is None:
        return ""
    return f"{(job.ended or time.time()) - job.started:.1f} s"

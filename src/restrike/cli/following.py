"""Shows on stderr what happens to a job of a server until it has ended, as `run` shows its own steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from restrike.cli.interrupts import on_interrupt
from restrike.errors import Cancelled

if TYPE_CHECKING:
    from restrike.cli.run_screen import RunScreen
    from restrike.client.client import Client
    from restrike.client.results import Job
    from restrike.server.jobs.model import JobEvent


def follow(client: Client, name: str) -> Job:
    """Wait until a job has ended; raises Cancelled when Ctrl-C ends the waiting, which leaves the job."""
    from restrike.cli.run_screen import run_screen

    following = client.following(name)
    with run_screen() as screen, on_interrupt(following.close):
        for event in following:
            show(screen, event)
        if following.was_closed:
            raise Cancelled(f"no longer waiting; job {name} goes on, and `restrike cancel {name}` stops it")
    return client.job(name)


def show(screen: RunScreen, event: JobEvent) -> None:
    """Show one event."""
    data = event.data
    match event.kind:
        case "state":
            _show_state(screen, data)
        case "step" if data["status"] == "began":
            screen.began(data["step"])
        case "step":
            screen.ended(_record(data))
        case "progress":
            picture = picture_of(data)
            screen.denoised(
                ", ".join(filter(None, (data["step"], picture))), done=data["done"], total=data["total"]
            )
        case "notice":
            screen.noted(f"note on {data['step']}: {data['message']}")
        case _:
            pass


def progress_of(data: Mapping[str, Any]) -> str:
    """How far a running job is, in words, by its newest progress; a handler's own says a share and a note."""
    if "fraction" in data:
        return ", ".join(filter(None, (f"{data['done']} %", data["note"])))
    steps = f"{data['done']} of {data['total']} steps" if data["total"] else f"{data['done']} steps"
    return ", ".join(filter(None, (data["step"], picture_of(data), steps)))


def picture_of(data: Mapping[str, Any]) -> str:
    """Which picture it is; nothing where there is one."""
    # A worker of an earlier release does not count them.
    pictures = data.get("pictures", 1)
    return f"picture {data['picture']} of {pictures}" if pictures > 1 else ""


def _show_state(screen: RunScreen, data: Mapping[str, Any]) -> None:
    if data["state"] == "running":
        screen.began(f"on {data['device']}")
    elif data["state"] == "queued" and "reason" in data:
        screen.noted(f"it waits again: {data['reason']}")
    elif data["state"] == "queued":
        screen.began("waiting for a worker")


def _record(data: Mapping[str, Any]) -> Any:
    from restrike.workflow.runs import StepRecord

    return StepRecord(
        action=data["step"],
        label=data["label"],
        status=data["status"],
        seconds=data["seconds"],
        origin=data["origin"],
        reason=data["reason"],
    )

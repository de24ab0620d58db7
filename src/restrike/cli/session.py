"""The session that workflow verbs work in: workspace, store, tasks and device as options and settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from restrike.cli.store import open_store
from restrike.cli.workflow_options import WorkflowOptions, values_of, workspace_of

if TYPE_CHECKING:
    from pathlib import Path

    from restrike.engine.engine import Engine
    from restrike.workflow.session import Asked, Session
    from restrike.workflow.source import Source


def session_for(
    workspace: Path, allow_code: list[Path], device: str | None, precision: str | None
) -> Session:
    """The session of a workspace; the engine is made, and torch imported, when a generation runs."""
    from restrike.workflow.expansion import Machine
    from restrike.workflow.session import Session
    from restrike.workflow.tasks.registry import Tasks

    def make_engine() -> Engine:
        from restrike.engine.engine import Engine

        return Engine(device=device, precision=precision)

    return Session(
        workspace=workspace,
        store=open_store(),
        machine=Machine(tasks=Tasks(tuple(allow_code)), device=device or "auto", precision=precision),
        make_engine=make_engine,
    )


def session_of(options: WorkflowOptions, device: str | None, precision: str | None) -> Session:
    """The session of a verb that takes a workflow."""
    return session_for(workspace_of(options), options.allow_code, device, precision)


def asked_of(
    options: WorkflowOptions,
    source: Source,
    *,
    seed: int | None,
    rerun: list[str],
    reuse: bool = True,
    audit: bool = False,
) -> Asked:
    """What the options ask of a workflow; texts become values of the variables' types."""
    from restrike.workflow.session import Asked

    return Asked(values=values_of(options, source), seed=seed, reuse=reuse, rerun=tuple(rerun), audit=audit)

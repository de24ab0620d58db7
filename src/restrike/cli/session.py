"""The session that workflow verbs work in: workspace, store, tasks and device as options and settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from restrike.cli.workflow_options import WorkflowOptions, values_of, workspace_of

if TYPE_CHECKING:
    from pathlib import Path

    from restrike.workflow.session import Asked, Session
    from restrike.workflow.source import Source


def session_for(
    workspace: Path,
    allow_code: list[Path],
    device: str | None,
    precision: str | None,
    capture: str = "auto",
    *,
    cells: str | None = None,
    mint: str | None = None,
) -> Session:
    """The session of a workspace; says on stderr when the store's index had to be begun anew."""
    from restrike.workflow.api import open_session

    found = open_session(
        workspace,
        device=device,
        precision=precision,
        allow_code=tuple(allow_code),
        capture=capture,
        cells=cells,
        mint=mint,
    )
    if found.store.notice:
        typer.echo(found.store.notice, err=True)
    return found


def session_of(
    options: WorkflowOptions,
    device: str | None,
    precision: str | None,
    capture: str = "auto",
    *,
    cells: str | None = None,
    mint: str | None = None,
) -> Session:
    """The session of a verb that takes a workflow."""
    return session_for(
        workspace_of(options), options.allow_code, device, precision, capture, cells=cells, mint=mint
    )


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

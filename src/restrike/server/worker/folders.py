"""The run folder of a job as an attempt finds it. It writes nothing."""

from __future__ import annotations

from pathlib import Path

from restrike.errors import RestrikeError
from restrike.workflow.runs import Manifest, RunFolder


def manifest_of(workspace: Path, run: str | None) -> Manifest | None:
    """What stands in a run folder, None before it has one and while nothing is in it."""
    if run is None:
        return None
    try:
        return RunFolder.open(workspace, run).manifest()
    except RestrikeError:
        return None

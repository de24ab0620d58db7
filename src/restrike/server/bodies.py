"""What a job's body means: the workflow that is run, and what is asked of it. Reads no file, runs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restrike.server.generation import NAME, workflow_of
from restrike.server.jobs.model import JobKind
from restrike.workflow.session import Asked
from restrike.workflow.source import UNNAMED, Source, read_text, read_tree


def source_of(kind: JobKind, body: Mapping[str, Any]) -> Source:
    """The workflow that a job runs; raises InvalidWorkflow or Refused."""
    if kind is JobKind.GENERATION:
        return read_tree(workflow_of(body), name=NAME)
    name, definition = body.get("name") or UNNAMED, body["definition"]
    if isinstance(definition, str):
        return read_text(definition, name=name)
    return read_tree(definition, name=name)


def asked_of(kind: JobKind, body: Mapping[str, Any]) -> Asked:
    """What a job asks beside its workflow."""
    if kind is JobKind.GENERATION:
        return Asked()
    return Asked(
        values=body.get("values") or {},
        seed=body.get("seed"),
        reuse=body.get("reuse", True),
        rerun=tuple(body.get("rerun") or ()),
    )

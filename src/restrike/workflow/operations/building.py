"""From a step to its operation: the one place that knows the builder of each kind of step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restrike.workflow.definition import PipelineSpec
from restrike.workflow.operations.build_generate import build_generate
from restrike.workflow.operations.build_pipeline import build_pipeline
from restrike.workflow.operations.build_task import build_task
from restrike.workflow.operations.site import Built, Site


def build(kind: str, what: str | PipelineSpec, arguments: Mapping[str, Any], site: Site) -> Built | None:
    """The operation of a step, its references resolved; None when it has findings that leave none.

    `what` is the card or task by name, or the spec of a pipeline.
    """
    if isinstance(what, PipelineSpec):
        return build_pipeline(what, arguments, site)
    return {"generate": build_generate, "task": build_task}[kind](what, arguments, site)

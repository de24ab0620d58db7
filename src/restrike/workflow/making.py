"""Makes the actions of one step or member: what they have in common is kept here while they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from restrike.workflow.definition import PipelineSpec, ResultSpec
from restrike.workflow.findings import Findings
from restrike.workflow.graph import Action
from restrike.workflow.level import StepSite
from restrike.workflow.operations.building import build
from restrike.workflow.operations.site import Built


@dataclass(frozen=True, kw_only=True)
class Making:
    """A step with its references resolved: what it runs, its seed and its result block."""

    site: StepSite
    what: str | PipelineSpec
    result: ResultSpec
    seed: int

    @property
    def saves(self) -> bool | None:
        """Whether the result block says that the value is saved; None when there is no block."""
        return None if self.site.spec.result is None else self.result.save is True

    def build(self, arguments: Mapping[str, Any], findings: Findings) -> Built | None:
        """The operation with these arguments; None when there is none by its name."""
        site = self.site
        built = build(site.spec.kind, self.what, arguments, site.shared.site(site.at(), findings))
        return built and site.shared.once(built)

    def action(self, name: str, built: Built, seed: int) -> Action:
        """An action of the step; what it saves is settled when all readers are known."""
        return Action(
            id=name,
            step=self.site.step,
            operation=built.operation,
            arguments=built.arguments,
            seed=seed if built.operation.draws else None,
            result=self.result,
            saves=False,
            place=self.site.at(),
        )

"""What all levels of one expansion share: the actions so far, drawn seeds, files and cards that were read.

It lives as long as one call of `expand` and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from restrike.cards import registry
from restrike.cards.adapters import Adapter
from restrike.cards.card import ModelCard
from restrike.workflow.elision import Draft
from restrike.workflow.findings import Findings, Place
from restrike.workflow.operations.generate import Generate
from restrike.workflow.operations.pipeline import PipelineCall
from restrike.workflow.operations.site import Built, Site
from restrike.workflow.source import Source
from restrike.workflow.workspace_files import WorkspaceFiles

if TYPE_CHECKING:
    from restrike.workflow.expansion import Machine

MAX_ACTIONS = 10_000
# Each is looked at together with the steps around it, one for each workflow of a nest at most.
_MAX_LOOKS = 8 * MAX_ACTIONS
_MAX_FINDINGS = 1000
_TOO_MANY = f"more than {MAX_ACTIONS} steps, counting each member and segment; run a part at a time"


class TooMany(Exception):
    """A workflow with more actions than one run may have."""


@dataclass(kw_only=True)
class Shared:
    """`seeds` and `inlined` are by their places in the realized definition."""

    workspace: Path
    machine: Machine
    draw: Callable[[], int]
    drafts: list[Draft] = field(default_factory=list)
    notices: dict[str, None] = field(default_factory=dict)
    seeds: dict[Place, int] = field(default_factory=dict)
    inlined: dict[Place, Source] = field(default_factory=dict)
    sources: dict[Path, Source] = field(default_factory=dict)
    _looks: int = 0
    _cards: dict[str, ModelCard] = field(default_factory=dict)
    _generates: dict[tuple[int, str, tuple[Adapter, ...]], Generate] = field(default_factory=dict)
    _pipelines: dict[str, PipelineCall] = field(default_factory=dict)

    @cached_property
    def files(self) -> WorkspaceFiles:
        """The workspace's files."""
        return WorkspaceFiles(self.workspace)

    def add(self, draft: Draft) -> None:
        """One more action; raises TooMany."""
        if len(self.drafts) >= MAX_ACTIONS:
            raise TooMany(_TOO_MANY)
        self.drafts.append(draft)

    def look(self, findings: Findings) -> None:
        """One more step or member is looked at, whether or not it comes to an action; raises TooMany."""
        self._looks += 1
        if self._looks > _MAX_LOOKS:
            raise TooMany(_TOO_MANY)
        if len(findings.found) > _MAX_FINDINGS:
            raise TooMany(f"more than {_MAX_FINDINGS} findings; mend these first")

    def drawn(self, place: Place) -> int:
        """The seed at a place, drawn when it is first asked for; the realized definition has it."""
        if place not in self.seeds:
            self.seeds[place] = self.draw()
        return self.seeds[place]

    def site(self, place: Place, findings: Findings) -> Site:
        """The site of a step."""
        machine = self.machine
        return Site(
            place=place,
            findings=findings,
            tasks=machine.tasks,
            device=machine.device,
            precision=machine.precision,
            card=self._card,
            weights_now=machine.weights_now,
            cells_now=machine.cells_now,
            barred=machine.barred,
            note=lambda text: self.notices.setdefault(text),
        )

    def once(self, built: Built) -> Built:
        """The same with one operation for all steps of a card, so that its weights are looked at once."""
        operation = built.operation
        if isinstance(operation, PipelineCall):
            return replace(built, operation=self._pipelines.setdefault(repr(operation), operation))
        if not isinstance(operation, Generate):
            return built
        key = (id(operation.card), operation.precision, operation.adapters)
        return replace(built, operation=self._generates.setdefault(key, operation))

    def _card(self, name: str) -> ModelCard:
        if name not in self._cards:
            self._cards[name] = registry.find(name)
        return self._cards[name]

"""What is known where an operation is built, and what is known of it once it is. Builds nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from restrike.cards.card import ModelCard
from restrike.cards.identity import WeightStamp
from restrike.workflow.findings import Findings, Place
from restrike.workflow.graph import Operation
from restrike.workflow.outcomes import Yield
from restrike.workflow.tasks.registry import Tasks

ARGUMENTS = "arguments"


@dataclass(frozen=True, kw_only=True)
class Site:
    """The step that an operation is built for: where its findings go, and what it may use.

    `card` finds a card by its name, folder or hub id, and raises as `cards.registry.find` does; `weights_now`
    tells the weights of a card where the step will run, and raises as `cards.identity.stamp_of` does;
    `cells_now` tells the keys of the compiled calls that may answer there; `barred` says why a model or an
    adapter may not be named so; `note` tells the person who runs the workflow something that is not wrong.
    """

    place: Place
    findings: Findings
    tasks: Tasks
    device: str
    precision: str | None
    card: Callable[[str], ModelCard]
    weights_now: Callable[[ModelCard], WeightStamp]
    cells_now: Callable[[], tuple[str, ...]]
    barred: Callable[[str], str | None]
    note: Callable[[str], None]

    def at(self, *steps: str | int) -> Place:
        """A place inside the step."""
        return (*self.place, *steps)

    def argument(self, name: str, given: Mapping[str, Any]) -> Place:
        """Where an argument stands, or where it is missing."""
        return self.at(ARGUMENTS, name) if name in given else self.at(ARGUMENTS)


@dataclass(frozen=True, kw_only=True)
class Built:
    """An operation with all its arguments, defaults included, and what is known of its value."""

    operation: Operation
    arguments: Mapping[str, Any]
    gives: Yield

"""One workflow of a nest, and one step of it, while they are expanded. `stepping` does the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from restrike.workflow.definition import StepSpec
from restrike.workflow.findings import Findings, Place
from restrike.workflow.outcomes import NOTHING, Outcome
from restrike.workflow.reading import Reading
from restrike.workflow.resolving import Entry, Resolver
from restrike.workflow.seeds import derived
from restrike.workflow.sharing import Shared
from restrike.workflow.values_given import RANDOM, seed_of
from restrike.workflow.variables import VARIABLES


@dataclass(frozen=True, kw_only=True)
class Level:
    """One workflow of a nest.

    `at` is its place in its author's file, `root` its place in the realized definition; `prefix` begins the
    ids of its actions, `above` are the files that led here, its own the last.
    """

    reading: Reading
    findings: Findings
    above: tuple[Path, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    at: Place = ()
    root: Place = ()
    prefix: str = ""
    depth: int = 1

    def with_variables(self, values: Mapping[str, Any], shared: Shared) -> Level:
        """The level with its variables; a value may name a stored file or prompt."""
        stored = Resolver(files=shared.files, variables={}, steps={}, findings=self.findings)
        names = (*self.reading.definition.variables, *self.reading.broken_variables)
        # What has findings stands as nothing, so that no more is said of it.
        known = {name: stored.resolve(value, (*self.at, VARIABLES, name)) for name, value in values.items()}
        return replace(self, variables=dict.fromkeys(names, NOTHING) | known)

    def resolver(self, steps: Mapping[str, Outcome], shared: Shared) -> Resolver:
        """What the references of a step of this level mean."""
        return Resolver(files=shared.files, variables=self.variables, steps=steps, findings=self.findings)


@dataclass(frozen=True, kw_only=True)
class StepSite:
    """One step of a level, or one member of it: the resolver knows the entry that it is made for."""

    level: Level
    name: str
    spec: StepSpec
    resolver: Resolver
    shared: Shared

    def for_entry(self, entry: Entry) -> StepSite:
        """The member of that entry."""
        return replace(self, resolver=replace(self.resolver, entry=entry))

    @property
    def findings(self) -> Findings:
        """Where what is wrong with it goes."""
        return self.level.findings

    def at(self, *steps: str | int) -> Place:
        """A place inside the step, in its author's file."""
        return (*self.level.at, "steps", self.name, *steps)

    def root(self, *steps: str | int) -> Place:
        """A place inside the step, in the realized definition."""
        return (*self.level.root, "steps", self.name, *steps)

    @property
    def step(self) -> str:
        """The step's name after those of all above it."""
        return f"{self.level.prefix}{self.name}"

    @property
    def id(self) -> str:
        """The same with the member."""
        entry = self.resolver.entry
        return f"{self.step}[{entry.name}]" if entry else self.step

    def seed(self, inherited: int) -> int:
        """The step's own seed or the inherited one; for a member the one derived by its name."""
        seed = inherited
        if self.spec.seed is not None:
            written = seed_of(self.spec.seed, self.resolver, self.at("seed"))
            if written == RANDOM:
                seed = self.shared.drawn(self.root("seed"))
            elif isinstance(written, int):
                seed = written
        entry = self.resolver.entry
        return derived(seed, entry.name) if entry else seed

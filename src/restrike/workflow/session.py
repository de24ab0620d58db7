"""Plans, runs and explains workflows in one workspace: what the command line, Python and the server call.

It joins the parts and decides nothing of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from restrike.cards.card import ModelCard
from restrike.cards.identity import WeightStamp, stamp_of
from restrike.errors import Unknown
from restrike.store.store import Store
from restrike.workflow.execution import Executor
from restrike.workflow.expansion import Machine, expand
from restrike.workflow.explain import Explanation, explain
from restrike.workflow.graph import Graph
from restrike.workflow.plan import Plan, plan
from restrike.workflow.runner import Run, RunBegan, RunEvent
from restrike.workflow.runs import Manifest, RunFolder, StepRecord
from restrike.workflow.settling import Reuse
from restrike.workflow.source import Source, read_file
from restrike.workflow.workspace import scope_of

if TYPE_CHECKING:
    from restrike.engine.engine import Engine
    from restrike.engine.events import Event


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a run is asked for beside the workflow: values, seed, and how what is kept is used."""

    values: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    reuse: bool = True
    rerun: tuple[str, ...] = ()
    audit: bool = False


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Who is told of a run's events, and who may cancel it: `check` is called often and may raise.

    A generation shows how it looks after every `preview_every`-th step; 0 is never.
    """

    run: Callable[[RunEvent], None] = lambda event: None
    engine: Callable[[str, Event], None] = lambda action, event: None
    check: Callable[[], None] = lambda: None
    preview_every: int = 0


@dataclass(frozen=True, kw_only=True)
class Session:
    """One workspace, one store, one machine. `make_engine` is called when the first generation runs."""

    workspace: Path
    store: Store
    machine: Machine
    make_engine: Callable[[], Engine]

    @cached_property
    def engine(self) -> Engine:
        """The engine of all its runs: what one loaded serves the next."""
        return self.make_engine()

    def graph(self, source: Source, asked: Asked, *, create: bool) -> Graph:
        """The expanded workflow, with the workspace's own scope; `create` names a new workspace."""
        machine = replace(self.machine, weights_now=self._weights_now)
        found = expand(source, asked.values, self.workspace, machine, seed=asked.seed)
        _check_steps(found, asked.rerun)
        return replace(found, scope=scope_of(self.workspace, found.scope, create=create))

    def _weights_now(self, card: ModelCard) -> WeightStamp:
        """Those that the engine serves, once there is one: they may have been synced."""
        return self.engine.stamp_of(card) if "engine" in vars(self) else stamp_of(card)

    def plan(self, source: Source, asked: Asked) -> Plan:
        """What a run would do; computes and writes nothing."""
        return plan(self.graph(source, asked, create=False), self.store, fresh=_fresh(asked))

    def run(self, source: Source, asked: Asked, watch: Watch | None = None) -> Manifest:
        """Run a workflow in a new folder of its own."""
        graph, watch = self.graph(source, asked, create=True), watch or Watch()
        folder = RunFolder.create(self.workspace, graph.name)
        with folder.worked_on():
            watch.run(RunBegan(run=folder.name))
            folder.write_definition(graph.realized)
            return self._execute(graph, folder, asked, watch)

    def resume(self, name: str, watch: Watch | None = None, asked: Asked | None = None) -> Manifest:
        """Go on with an interrupted, failed or cancelled run, in its own folder, at its unfinished step.

        `asked` is what the run was asked for: steps that it has not finished are computed if that says so.
        """
        folder = RunFolder.open(self.workspace, name)
        with folder.worked_on():
            folder.sweep()
            finished = tuple(s for s in folder.manifest().steps if s.status in ("reused", "computed"))
            graph = self.graph(read_file(folder.definition()), Asked(), create=True)
            left = _left(asked or Asked(), graph, finished)
            return self._execute(graph, folder, left, watch or Watch(), finished)

    def _execute(
        self,
        graph: Graph,
        folder: RunFolder,
        asked: Asked,
        watch: Watch,
        earlier: tuple[StepRecord, ...] = (),
    ) -> Manifest:
        run = Run(
            graph=graph,
            store=self.store,
            folder=folder,
            executor=Executor(lambda: self.engine, watch.engine, watch.preview_every),
            reuse=Reuse(enabled=asked.reuse, fresh=_fresh(asked)),
            audit=asked.audit,
            earlier=earlier,
            watch=watch.run,
            check=watch.check,
        )
        return run.execute()

    def explain(self, name: str) -> tuple[Explanation, ...]:
        """Why each step of a run was reused or computed."""
        return explain(RunFolder.open(self.workspace, name), self.store)


def _fresh(asked: Asked) -> frozenset[str]:
    return frozenset(asked.rerun)


def _left(asked: Asked, graph: Graph, finished: tuple[StepRecord, ...]) -> Asked:
    """What is left of what was asked for; a step that this run has finished is not computed again."""
    done = {record.action for record in finished}
    steps = dict.fromkeys(action.step for action in graph.actions if action.id not in done)
    return Asked(rerun=tuple(step for step in steps if not asked.reuse or step in asked.rerun))


def _check_steps(graph: Graph, names: tuple[str, ...]) -> None:
    steps = {action.step for action in graph.actions}
    for name in names:
        if name not in steps:
            raise Unknown("step", name, steps)

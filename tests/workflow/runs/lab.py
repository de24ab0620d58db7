"""A workspace, a store and an engine to run workflows with, and a count of what the engine was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from restrike.cards.card import ModelCard
from restrike.cards.identity import WeightStamp
from restrike.engine.engine import Engine
from restrike.store.store import Store
from restrike.workflow.expansion import Machine
from restrike.workflow.plan import Plan, Status
from restrike.workflow.runs import Manifest, RunFolder
from restrike.workflow.session import Asked, Session, Watch
from restrike.workflow.source import read_tree
from restrike.workflow.tasks.registry import Tasks

OWN_TASKS = Path(__file__).with_name("own_tasks.py")


class CountedEngine:
    """The engine, counting generations."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.generations = 0

    def stream(self, *arguments: Any) -> Any:
        """As the engine's."""
        self.generations += 1
        return self._engine.stream(*arguments)

    def stamp_of(self, card: ModelCard) -> WeightStamp:
        """As the engine's."""
        return self._engine.stamp_of(card)


@dataclass
class Lab:
    """Runs workflows that are written as trees."""

    root: Path
    engine: CountedEngine
    tasks: Tasks = field(default_factory=lambda: Tasks((OWN_TASKS,)))
    workspace: str = "workspace"

    def __post_init__(self) -> None:
        self.store = Store(self.root / "store")
        self.log = self.root / "log"

    def restarted(self) -> Lab:
        """Another lab on the same folders, as another process would be."""
        return Lab(self.root, self.engine, self.tasks, self.workspace)

    @property
    def session(self) -> Session:
        """A session on this lab's folders."""
        return Session(
            workspace=self.root / self.workspace,
            store=self.store,
            machine=Machine(tasks=self.tasks, device="cpu"),
            make_engine=lambda: self.engine,  # pyright: ignore[reportArgumentType]
        )

    def run(self, tree: Mapping[str, Any], *, watch: Watch | None = None, **asked: Any) -> Manifest:
        """Run a workflow; the rest is what `Asked` takes."""
        return self.session.run(read_tree(tree, name="w"), Asked(**asked), watch)

    def plan(self, tree: Mapping[str, Any], **asked: Any) -> Plan:
        """Plan a workflow."""
        return self.session.plan(read_tree(tree, name="w"), Asked(**asked))

    def folder(self, manifest: Manifest) -> Path:
        """The folder of a run."""
        return RunFolder.open(self.root / self.workspace, manifest.run).path

    def calls(self) -> int:
        """How many lines the tasks left in the log."""
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


def does(manifest: Manifest) -> dict[str, str]:
    """What became of each action."""
    return {step.action: step.status for step in manifest.steps}


def computed(manifest: Manifest) -> set[str]:
    """The actions that were computed."""
    return {step.action for step in manifest.steps if step.status == "computed"}


def planned(plan: Plan) -> dict[str, str]:
    """What a run would do to each action, as far as the plan is sure."""
    names = {Status.REUSED: "reused", Status.RUNS: "computed", Status.MAY_RUN: "may run"}
    return {row.action: names[row.status] for row in plan.rows}


def files(lab: Lab, manifest: Manifest) -> dict[str, bytes]:
    """The bytes of each file of a run, as the manifest names them."""
    folder = lab.folder(manifest)
    return {file.file: (folder / file.file).read_bytes() for step in manifest.steps for file in step.files}


def steps(**named: Any) -> dict[str, Any]:
    """A workflow with these steps and seed 7."""
    return {"seed": 7, "steps": named}


def digit(prompt: str = "a seven", **more: Any) -> dict[str, Any]:
    """A step that makes a digit in two steps."""
    return {"generate": "digits", "arguments": {"prompt": prompt, "steps": 2, **more}}


def resized(clip: str, side: Any = 16, **more: Any) -> dict[str, Any]:
    """A step that scales a picture."""
    return {"task": "picture.resize", "arguments": {"clip": clip, "width": side, "height": side, **more}}


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file under a folder, with its size and time."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }

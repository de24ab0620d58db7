"""The operation of a `task` step: a registered function, keyed by its name, epoch and source.

An installed task is trusted to bump its epoch; one from a user's file is keyed by the file's bytes too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from restrike.errors import Refused
from restrike.keys import Ref
from restrike.workflow.operations.machine import machine_identity
from restrike.workflow.tasks.registry import Task


@dataclass(frozen=True, kw_only=True)
class TaskCall:
    """One task."""

    task: Task
    device: str

    @property
    def label(self) -> str:
        """`task video.concat`."""
        return f"task {self.task.name}"

    @property
    def reusable(self) -> bool:
        """Not when it declares side effects."""
        return not self.task.side_effects

    @property
    def draws(self) -> bool:
        """Whether it takes a seed."""
        return self.task.draws

    def identity(self) -> Mapping[str, object]:
        """The kind, name and epoch, and the digests of its own files when it is not installed."""
        return {
            "kind": "task",
            "name": self.task.name,
            "epoch": self.task.epoch,
            "sources": [Ref(source, of="file") for source in self.task.sources],
        }

    def exact_identity(self) -> Mapping[str, object]:
        """The facts of the machine."""
        return machine_identity(self.device)

    def timing_label(self, arguments: Mapping[str, Any]) -> str:
        """The task itself: its time depends on its inputs, which a plan may not know."""
        return self.label

    def download_bytes(self) -> int:
        """Nothing is fetched for a task."""
        return 0

    def fetch(self) -> None:
        """Nothing is fetched for a task."""

    def run(self, arguments: Mapping[str, Any], seed: int | None) -> Any:
        """Call the function with checked arguments; raises Refused naming the argument that does not fit."""
        checked = {name: self._checked(name, value) for name, value in arguments.items()}
        if self.task.draws:
            checked["seed"] = seed
        return self.task.function(**checked)

    def _checked(self, name: str, value: Any) -> Any:
        try:
            return self.task.checked(name, value)
        except ValueError as error:
            raise Refused(f"{self.label}: argument '{name}': {error}") from error

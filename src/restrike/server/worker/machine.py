"""The one engine of a worker, and a session of it for each workspace. It runs no job."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from restrike.engine.counts import by_card
from restrike.errors import typed
from restrike.mint.adoption.choice import cells_for
from restrike.server.place import Place
from restrike.server.worker.options import WorkerOptions
from restrike.server.worker.servings import Servings
from restrike.server.workers import Report
from restrike.workflow.api import open_session
from restrike.workflow.session import Session

if TYPE_CHECKING:
    from restrike.engine.engine import Engine

_REASONS_TOLD = 16
"""They are told with every heartbeat, and each is a time series of whoever collects them."""


@dataclass(kw_only=True)
class WorkerMachine:
    """What a worker keeps between jobs: its engine with all that was loaded."""

    options: WorkerOptions
    place: Place
    _sessions: dict[str, Session] = field(default_factory=dict, init=False)

    @cached_property
    def _first(self) -> Session:
        options = self.options
        return open_session(
            self.place.folder,
            device=options.torch_device,
            precision=options.precision,
            allow_code=options.allow_code,
            capture=options.capture,
            cells=options.cells,
            mint=options.mint,
        )

    @cached_property
    def engine(self) -> Engine:
        """The engine of all jobs; importing torch takes seconds."""
        return self._first.make_engine()

    @cached_property
    def servings(self) -> Servings:
        """The endpoints of all jobs."""
        options = self.options
        return Servings(
            origins=options.endpoints,
            engine=lambda: self.engine,
            compiles=cells_for(options.cells, options.mint) is not None,
        )

    def session(self, workspace: str) -> Session:
        """The session of a workspace, whose folder is made; raises Refused or Shortfall."""
        if workspace not in self._sessions:
            folder = self._made(self.place.workspace(workspace))
            self._sessions[workspace] = replace(
                self._first, workspace=folder, make_engine=lambda: self.engine
            )
        return self._sessions[workspace]

    def _made(self, folder: Path) -> Path:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise typed(error) from error
        return folder

    def close(self) -> None:
        """Let endpoints shut down, then end what the engine runs beside jobs."""
        if "servings" in vars(self):
            self.servings.close()
        if "engine" in vars(self):
            self.engine.close()

    def report(self) -> Report:
        """What it holds, and what cells and captures did so far, by card and in few words; waits for nobody.

        Nothing before there is an engine.

        Raises:
            RestrikeError: the checkpoint of something that is loaded is gone, and with it what that is.
        """
        if "engine" not in vars(self):
            return Report()
        warm = self.engine.warm()
        return Report(
            resident=tuple(sorted({card.weights for card in warm})),
            armed=tuple(sorted({card.weights for card in warm if card.is_armed})),
            resident_bytes=self.weights_bytes(),
            cards=by_card(each.brief(_REASONS_TOLD) for each in self.engine.counters()),
        )

    def clear(self) -> int:
        """Let go of all that was loaded, which later jobs load anew; returns the bytes that are freed."""
        self.servings.close()
        return self.engine.clear()

    def weights_bytes(self) -> int:
        """What the engine's components take of main memory."""
        snapshots = [each for each in self.engine.memory() if each.device == "cpu"]
        return sum(each.resident_bytes for each in snapshots)

    def is_sound(self) -> bool:
        """Whether the device still computes: after some faults a GPU answers with errors only."""
        import torch

        if not self.options.torch_device.startswith("cuda"):
            return True
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return False
        return True


def share_of_memory(share: int) -> int | None:
    """The bytes of main memory for one of so many workers; None where the system does not tell."""
    from restrike.engine.memory.limits import main_memory_free_bytes

    free_bytes = main_memory_free_bytes()
    return None if free_bytes is None else free_bytes // share

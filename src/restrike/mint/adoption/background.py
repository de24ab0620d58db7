"""Mints what is missing of a card in a child while eager serves, and has it adopted as it lands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from restrike.engine.resident import ResidentCard
from restrike.errors import RestrikeError
from restrike.mint.adoption.discovery import Wanted
from restrike.mint.cell.host import cpu_target, cuda_target
from restrike.mint.events import EntryLanded, MintEvent
from restrike.mint.outcome import Outcome
from restrike.mint.parent import Pulse, mint
from restrike.mint.request import MintRequest, slot_of
from restrike.mint.scratch import new_scratch, tidy
from restrike.mint.store.store import CellStore


class Minting:
    """One mint in the background; a watcher of its own child."""

    def __init__(
        self,
        resident: ResidentCard,
        store: CellStore,
        missing: Sequence[Wanted],
        landed: Callable[[], None],
    ) -> None:
        self._resident, self._store, self._landed = resident, store, landed
        self._shapes = tuple(dict.fromkeys(each.row.shape.name for each in missing))
        self._targets = tuple(dict.fromkeys(each.target.component for each in missing))
        self._cancelled = threading.Event()
        # A daemon: the child is on a leash, and ends with this process however that ends.
        self._thread = threading.Thread(target=self._mint, name="background mint", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        listed = ", ".join(self._shapes)
        self._resident.compiled.tell(
            f"cells of {listed} are being minted; until they have landed, eager serves"
        )
        self._thread.start()

    def cancel(self) -> None:
        """End it and its child; what has landed stays."""
        self._cancelled.set()
        self._thread.join()

    @property
    def goes_on(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def join(self) -> None:
        """Return when it has ended."""
        while self._thread.is_alive():  # in pieces, so that an interrupt is heard
            self._thread.join(0.2)

    def show(self, event: MintEvent) -> None:
        """Adopt each cell as it lands."""
        if isinstance(event, EntryLanded):
            self._landed()

    def working(self, pulse: Pulse) -> None:
        """Nobody waits for it."""

    def cancelled(self) -> bool:
        """Whether it was ended."""
        return self._cancelled.is_set()

    def _mint(self) -> None:
        try:
            request = self._request()
            ending = mint(request, self).report.ending
            tidy(Path(request.scratch))
        except RestrikeError as error:
            self._tell(error.message)
            return
        if ending.outcome not in (Outcome.OK, Outcome.CANCELLED):
            self._tell(ending.message)

    def _tell(self, reason: str) -> None:
        self._resident.compiled.refused(", ".join(self._shapes), "minting failed", reason)

    def _request(self) -> MintRequest:
        resident = self._resident
        is_cuda = resident.device.type == "cuda"
        target = cuda_target(*_capability(resident)) if is_cuda else cpu_target()
        return MintRequest(
            slot=slot_of(resident.card),
            recipe="aot",
            target=target,
            store=str(self._store.root),
            scratch=str(new_scratch(self._store.root / "mints")),
            precision=resident.placement.dtype,
            shapes=self._shapes,
            targets=self._targets,
        )


def _capability(resident: ResidentCard) -> tuple[int, int]:
    import torch

    return torch.cuda.get_device_capability(resident.device)

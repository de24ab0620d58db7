"""The cells that an engine may use: adopted for each card that it loads, and minted if that is asked.

It never stands in the way of a request: what cannot be adopted is told, and eager serves.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch

from restrike.engine.compiled.modes import Mode
from restrike.engine.resident import ResidentCard
from restrike.errors import Refused, typed
from restrike.mint import targets as authority
from restrike.mint.adoption.adoption import Adopted, Adoption
from restrike.mint.adoption.background import Minting
from restrike.mint.adoption.discovery import Place
from restrike.mint.adoption.refusal import AdoptionRefusal, AdoptionRefused
from restrike.mint.cell.facts import Target
from restrike.mint.cell.host import cpu_target, cuda_target, this_host
from restrike.mint.refusals import NothingDeclared
from restrike.mint.store.store import CellStore
from restrike.mint.store.tier import Tier


@dataclass(kw_only=True)
class _Card:
    """What is known of one card: what became of its cells, and the mint that goes on for it."""

    adopted: Adopted | None = None
    minting: Minting | None = None


class Cells:
    """An engine's `Adopter`. `tier` is the second tier, None for none."""

    def __init__(
        self,
        store: CellStore,
        *,
        mode: Mode = "auto",
        asked: bool = False,
        tier: Tier | None = None,
        mint: bool = False,
    ) -> None:
        self._store, self._asked, self._mint = store, asked, mint
        self._mode: Mode = mode
        self._tier = tier
        self._lock = threading.Lock()
        self._cards: dict[int, _Card] = {}

    def adopt(self, resident: ResidentCard) -> None:
        """Arm the cells of a card that was just loaded; with `mint`, begin to mint those that are missing.

        Raises:
            Refused: it must run compiled, and nothing could be armed.
        """
        table = resident.compiled
        table.asked, table.remedy = (
            self._asked or self._mode == "require",
            f"restrike mint {resident.address}",
        )
        found = _Card()
        self._cards[id(resident)] = found
        found.adopted = self._adopted(resident)
        # Only now: what is not armed yet is nothing to tell of.
        table.mode = self._mode
        if self._mode == "require" and not table.armed:
            reason = "; ".join(table.told()) or "no cell of it is here"
            raise Refused(
                f"card '{resident.card.name}' must run compiled, and cannot: {reason}; {table.remedy}"
            )
        if self._mint and found.adopted is not None and found.adopted.missing:
            found.minting = Minting(
                resident, self._store, found.adopted.missing, lambda: self.again(resident)
            )
            found.minting.start()

    def again(self, resident: ResidentCard) -> None:
        """Arm what has come since, while requests run."""
        found = self._adopted(resident)
        with self._lock:
            self._cards[id(resident)].adopted = found

    def adopted(self, resident: ResidentCard) -> Adopted | None:
        """What became of a card's cells; None where it could have none."""
        card = self._cards.get(id(resident))
        return card.adopted if card else None

    @property
    def is_minting(self) -> bool:
        """Whether anything is being minted."""
        return any(card.minting is not None and card.minting.goes_on for card in list(self._cards.values()))

    def wait(self) -> None:
        """Return when nothing is being minted any more."""
        for card in list(self._cards.values()):
            if card.minting is not None:
                card.minting.join()

    def close(self) -> None:
        """Cancel what is being minted."""
        for card in list(self._cards.values()):
            if card.minting is not None:
                card.minting.cancel()

    def _adopted(self, resident: ResidentCard) -> Adopted | None:
        table = resident.compiled
        try:
            target = _target_of(resident.device)
            block = None if target is None else authority.arming_block(target, compiles=False)
            if target is None or block is not None:
                reason = block.reason if block else f"no cells are compiled for {resident.device.type}"
                table.refused("all", str(block.name) if block else "no such target", reason)
                return None
            place = Place(store=self._store, tier=self._tier, host=this_host(target))
            return Adoption(resident=resident, place=place).adopt()
        except NothingDeclared as error:
            if table.asked:
                table.refused("all", "nothing declared", error.reason)
        except AdoptionRefused as error:
            table.refused("all", error.reason, error.detail)
        except Exception as error:
            # Whatever it was, nothing is armed, and eager can serve.
            table.refused("all", AdoptionRefusal.FAILED, typed(error).message)
        return None


def _target_of(device: torch.device) -> Target | None:
    if device.type == "cpu":
        return cpu_target()
    if device.type == "cuda" and torch.version.hip is None:
        return cuda_target(*torch.cuda.get_device_capability(device))
    return None

"""What a mint leaves for those who adopt on its machine: signposts to its cells, and that they ran here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from restrike.keys import Digest
from restrike.mint.adoption.signposts import Signposts, call_key, sizes_key
from restrike.mint.adoption.tried import Tried
from restrike.mint.cell.host import this_host
from restrike.mint.store.store import CellStore

if TYPE_CHECKING:
    from restrike.mint.landing import How
    from restrike.mint.preparing import Ready
    from restrike.mint.request import MintRequest
    from restrike.mint.warm import Observed


class Marking:
    """The marks of one mint; a call's signpost names all its cells that have landed so far."""

    def __init__(self, request: MintRequest, ready: Ready) -> None:
        self._request, self._ready = request, ready
        self._store = CellStore(Path(request.store))
        self._landed: dict[tuple[str, str], list[Digest]] = {}

    def landed(self, seen: Observed, key: Digest, how: How) -> None:
        """Note a cell that is in the store; what this mint made it has also run, to prove it."""
        if how == "keyed":
            return
        if how == "published":
            Tried(self._store.root).note(self._store.look(key)[0].header)
        keys = self._landed.setdefault((seen.target.component, seen.shape.name), [])
        keys.append(key)
        request = self._request
        sign = call_key(
            self._ready.resident,
            seen.target.component,
            seen.shape,
            stack=this_host(request.target).stack(request.recipe),
            target=request.target,
            options=self._ready.options,
        )
        signs = Signposts(self._store.root)
        signs.write(sign, keys)
        card = self._ready.resident.card
        if card.compile is not None and seen.shape not in card.compile.shapes:
            signs.add_size(sizes_key(self._ready.resident, request.target), seen.shape.name)

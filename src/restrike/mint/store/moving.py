"""Moves cells between a store and a tier. What comes from a tier is verified as any other cell is."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Sequence

from restrike.keys import Digest
from restrike.mint.cell.host import Host
from restrike.mint.cell.refusal import CellRefused
from restrike.mint.cell.verify import check_key, verify_any_host, verify_header
from restrike.mint.store.entry import Moved
from restrike.mint.store.store import CellStore
from restrike.mint.store.tier import Tier
from restrike.store.blobs import Blobs


def push(store: CellStore, tier: Tier, keys: Iterable[Digest]) -> Moved:
    """Send cells that are here; one that is refused is not sent, and counted by its reason.

    Raises:
        NotFound: there is no cell of a key here.
        Refused, Crashed, Shortfall: as the tier.
    """
    moved: list[Digest] = []
    already, refused = 0, Counter[str]()
    for key in keys:
        try:
            store.look(key)
        except CellRefused as error:
            refused[error.reason.value] += 1
            continue
        if not tier.has(key) and tier.offer(key, store.path(key)):
            moved.append(key)
        else:
            already += 1
    return Moved(moved=tuple(moved), already=already, refused=dict(refused))


def pull(store: CellStore, tier: Tier, hosts: Sequence[Host], keys: Iterable[Digest]) -> Moved:
    """Fetch cells that this machine can load; what its header refuses is not fetched, and counted by reason.

    Raises:
        NotFound: the tier has no cell of a key.
        Refused, Crashed, Shortfall: as the tier and the store.
    """
    moved: list[Digest] = []
    already, refused = 0, Counter[str]()
    for key in keys:
        try:
            if not store.has(key) and _fetched(store, tier, hosts, key):
                moved.append(key)
            else:
                already += 1
        except CellRefused as error:
            refused[error.reason.value] += 1
    return Moved(moved=tuple(moved), already=already, refused=dict(refused))


def _fetched(store: CellStore, tier: Tier, hosts: Sequence[Host], key: Digest) -> bool:
    listing = tier.listing(key)
    header = verify_header(listing.head, listing.size_bytes, store.ring).header
    check_key(header, key)
    verify_any_host(header, hosts)
    whole = store.partial / f"{secrets.token_hex(8)}.fetched"
    try:
        tier.fetch(listing, Blobs(store.partial / "fetched"), whole)
        return store.publish(whole) == "published"
    finally:
        whole.unlink(missing_ok=True)

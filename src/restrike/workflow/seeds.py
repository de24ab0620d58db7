"""Where seeds come from: given, drawn, or derived from a seed and a name. Nothing here keeps a state."""

from __future__ import annotations

import secrets

from restrike.cards.request import SEED_LIMIT
from restrike.keys import digest


def drawn() -> int:
    """A seed that nobody can foresee, of at most 53 bits so that every JSON reader keeps it whole."""
    return secrets.randbelow(SEED_LIMIT + 1)


def derived(seed: int, name: str) -> int:
    """The seed of the member of that name: by SHA-256 of both, so that no other member has a part in it."""
    return int(digest("member-seed", "1", [seed, name]).hex, 16) & SEED_LIMIT

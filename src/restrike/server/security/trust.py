"""Which models and adapters a request may name: trust is given to a request, never to a process."""

from __future__ import annotations

import re
from pathlib import Path

from restrike.cards import registry

_HUB = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}(@[A-Za-z0-9._/-]{1,100})?"
)
UNTRUSTED = (
    "a request names models by an installed card or a hub id (owner/name) and adapters by a hub id or an "
    "$asset; a folder of the server needs `trusted`, for which a token needs the scope admin"
)


def barred_untrusted(location: str) -> str | None:
    """Why a request that is not trusted may not name a model or adapter so; the same whatever exists."""
    if location in registry.names():
        return None
    if _HUB.fullmatch(location) and ".." not in location and not Path(location).exists():
        return None
    return UNTRUSTED


def barred_trusted(location: str) -> str | None:
    """A request with the scope admin may name any place, as its owner may on the command line."""
    return None

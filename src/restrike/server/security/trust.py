"""Which models and adapters a request may name: trust is given to a request, never to a process."""

from __future__ import annotations

import re
from pathlib import Path

from restrike.cards import registry
from restrike.workflow.findings import no_such

_HUB = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}(@[A-Za-z0-9._/-]{1,100})?"
)
NAMED = (
    "a request names models by an installed card or a hub id (owner/name) and adapters by a hub id or an "
    "$asset"
)
UNTRUSTED = f"{NAMED}; a folder of the server needs `trusted`, for which a token needs the scope admin"


def barred_untrusted(location: str) -> str | None:
    """Why a request that is not trusted may not name a model or adapter so; the same whatever exists.

    What looks like no path is taken for a mistyped card: cards are no secret, and no folder is looked for.
    """
    if location in registry.names():
        return None
    if looks_like_path(location):
        is_hub_id = _HUB.fullmatch(location) and ".." not in location and not Path(location).exists()
        return None if is_hub_id else UNTRUSTED
    return f"{no_such('card', location[:_SHOWN], registry.names())}; {NAMED}"


def looks_like_path(location: str) -> bool:
    """Whether a name may be meant as a folder, by its letters alone."""
    return any(sign in location for sign in "/\\") or location.startswith((".", "~"))


def barred_trusted(location: str) -> str | None:
    """A request with the scope admin may name any place, as its owner may on the command line."""
    return None


_SHOWN = 100
"""So many characters of a name are told back."""

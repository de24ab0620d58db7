"""The adapters that a file was made with, as its provenance names them, and where they are on this machine.

The file may be a stranger's: it may name no path, and its digest decides what is used. Fetches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restrike.cards.adapters import COUNT_LIMIT, Adapter
from restrike.cards.identity import AdapterIdentity
from restrike.errors import Refused, RestrikeError
from restrike.keys import file_digest

_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class RecordedAdapter:
    """One adapter of a file: the name of its own file, and what decides a result."""

    name: str
    identity: AdapterIdentity
    hub: str | None = None


def recorded_adapters(path: str, arguments: Mapping[str, Any]) -> tuple[RecordedAdapter, ...]:
    """Those that provenance lists, in their order; raises Refused when the list is not one of ours."""
    listed = arguments.get("adapters") or []
    if not isinstance(listed, list) or len(listed) > COUNT_LIMIT:
        raise Refused(f"'{path}': its adapters are no list of at most {COUNT_LIMIT}")
    return tuple(_read(path, entry) for entry in listed)


def _read(path: str, entry: Any) -> RecordedAdapter:
    fields: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {}
    name, digest, strength = (fields.get(part) for part in ("name", "digest", "strength"))
    component, hub = fields.get("component"), fields.get("hub")
    if (
        isinstance(name, str)
        and Path(name).name == name
        and isinstance(digest, str)
        and _DIGEST.fullmatch(digest)
        and isinstance(strength, int | float)
        and not isinstance(strength, bool)
        and isinstance(component, str | None)
        and isinstance(hub, str | None)
    ):
        identity = AdapterIdentity(digest=digest, strength=float(strength), component=component)
        return RecordedAdapter(name=name, identity=identity, hub=hub)
    raise Refused(f"'{path}': an entry of its adapters has no file name, digest and strength")


def found_again(path: str, arguments: Mapping[str, Any]) -> tuple[Adapter, ...]:
    """The adapters of a file with their files: beside it, here, or in the hub's cache, by their digests.

    Raises:
        Refused: one is in none of these places, or another file has its name.
    """
    return tuple(_find(path, part) for part in recorded_adapters(path, arguments))


def _find(path: str, part: RecordedAdapter) -> Adapter:
    others = False
    for candidate in _candidates(path, part):
        try:
            if str(file_digest(candidate)) == part.identity.digest:
                return Adapter(candidate, part.identity.strength, component=part.identity.component)
        except RestrikeError:
            continue
        others = True
    where = f"; --lora {part.hub} downloads it, if you trust it" if part.hub else "; give it with --lora FILE"
    lost = "the file of that name here is another one" if others else "which is neither here nor beside it"
    raise Refused(f"'{path}' was made with LoRA '{part.name}' ({part.identity.digest[:12]}), {lost}{where}")


def _candidates(path: str, part: RecordedAdapter) -> Iterator[Path]:
    for folder in dict.fromkeys((Path(path).parent, Path())):
        if (folder / part.name).is_file():
            yield folder / part.name
    if part.hub is not None:
        try:
            yield Adapter(part.hub, weight_name=part.name).source().file()
        except RestrikeError:
            return

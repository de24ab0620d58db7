"""Where an endpoint's code is: a file, an importable module, an installed entry point. Imports none of it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from restrike.errors import NotFound, Refused

GROUP = "restrike.endpoints"
_NAMED = re.compile(r"(?P<place>.+?)(?::(?P<name>[A-Za-z_]\w*))?")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A Python file, the package that it is in, and the one endpoint of it that is meant, if one is.

    `shown` is how a person names it.
    """

    file: Path
    shown: str
    package: str = ""
    name: str | None = None


def installed() -> dict[str, str]:
    """The endpoints that installed packages register: each name with its `module:endpoint`."""
    return {point.name: point.value for point in entry_points(group=GROUP)}


def find_place(text: str) -> Place | None:
    """The code that `FILE.py[:NAME]`, `package.module[:NAME]` or a registered name means; None when none is.

    Raises:
        NotFound: it is written as a file, and there is none.
        Refused: a registered name leads nowhere.
    """
    match = _NAMED.fullmatch(text)
    if match is None:
        return None
    place, name = match["place"], match["name"]
    if place.endswith(".py") or os.sep in place:
        file = Path(os.path.expanduser(place))
        if file.suffix != ".py":
            return None
        if not file.is_file():
            raise NotFound(f"no file at '{place}'")
        return Place(file=file.resolve(), shown=file.name, name=name)
    known = installed()
    if name is None and place in known:
        found = _module(known[place])
        if found is None:
            raise Refused(f"endpoint '{place}' is registered as {known[place]}, and there is no such module")
        return found
    return _module(text) if "." in place or name is not None else None


def _module(value: str) -> Place | None:
    module, _, name = value.partition(":")
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    package = spec.name if spec.submodule_search_locations else spec.parent or ""
    return Place(file=Path(spec.origin), shown=module, package=package, name=name or None)

"""Finds the endpoints of a file: by looking at it, without heavy libraries, or by loading it to run.

A file that is looked at is never run as what it serves; the two are different modules.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from restrike.endpoints.checking import check
from restrike.endpoints.declaration import MARK, Endpoint
from restrike.endpoints.places import Place
from restrike.endpoints.stubs import stubbed_builtins
from restrike.errors import Crashed, NotFound, Refused, RestrikeError, Unknown
from restrike.keys import Digest, digest, file_digest
from restrike.keys.sources import local_sources


@dataclass(frozen=True, kw_only=True)
class Found:
    """The endpoints of a file, by name, and what the file is made of: itself first, then what it imports."""

    place: Place
    endpoints: Mapping[str, Endpoint]
    sources: tuple[Digest, ...]

    @property
    def source(self) -> str:
        """A digest of all that it is made of."""
        return digest("endpoint-source", "1", [each.hex for each in self.sources]).hex

    def meant(self) -> Endpoint:
        """The endpoint that the place names, or the only one; raises Unknown or Refused."""
        name = self.place.name
        if name is not None:
            if name not in self.endpoints:
                raise Unknown(
                    "endpoint", name, self.endpoints, hint=f"They are those of '{self.place.shown}'."
                )
            return self.endpoints[name]
        if len(self.endpoints) > 1:
            listed = ", ".join(self.endpoints)
            raise Refused(f"'{self.place.shown}' has several endpoints; name one as FILE:NAME, of {listed}")
        return next(iter(self.endpoints.values()))


def look_at(place: Place) -> Found:
    """The endpoints of a file, checked, without importing torch or a model library for it.

    Raises:
        NotFound: it declares none.
        Refused: a declaration contradicts itself, or the file changed meanwhile.
        Crashed: the file fails on import.
    """
    return _found(place, "seen", {"__builtins__": stubbed_builtins()})


def load(place: Place) -> Found:
    """The endpoints of a file, checked and ready to run; raises as `look_at`."""
    return _found(place, "served", {})


def _found(place: Place, purpose: str, names: Mapping[str, Any]) -> Found:
    own = file_digest(place.file)
    module = _imported(place, f"restrike_{purpose}_{place.file.stem}_{own.short}", names)
    endpoints = {declared.name: declared for declared in _declared_in(module)}
    if not endpoints:
        raise NotFound(f"'{place.shown}' declares no endpoint; put @restrike.endpoint(...) on a function")
    for declared in endpoints.values():
        check(declared)
    if file_digest(place.file) != own:
        raise Refused(f"'{place.shown}' changed while it was imported; try again")
    return Found(place=place, endpoints=endpoints, sources=(own, *local_sources(place.file, place.package)))


def _declared_in(module: ModuleType) -> list[Endpoint]:
    found = [
        vars(value)[MARK]
        for value in vars(module).values()
        if callable(value) and getattr(value, "__module__", None) == module.__name__ and MARK in vars(value)
    ]
    return list(dict.fromkeys(found))


def _imported(place: Place, name: str, names: Mapping[str, Any]) -> ModuleType:
    full = f"{place.package}.{name}" if place.package else name
    if full in sys.modules:
        return sys.modules[full]
    spec = importlib.util.spec_from_file_location(full, place.file)
    if spec is None or spec.loader is None:
        raise Refused(f"'{place.shown}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    vars(module).update(names)
    sys.modules[full] = module  # dataclasses and pydantic look the module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[full]
        if isinstance(error, RestrikeError):
            raise
        where = f"'{place.shown}'{_line_of(error, place.file)}"
        raise Crashed(f"{where} fails on import: {type(error).__name__}: {error}") from error
    return module


def _line_of(error: Exception, file: Path) -> str:
    """The line of the file at which an error passed through it, as `, line 14`."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file
    ]
    return f", line {lines[-1]}," if lines else ""

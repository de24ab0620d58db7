"""`python -m restrike.server.endpoints.looker PLACE...`: looks at code of endpoints apart from the server.

It answers with one JSON object on its standard output, where nothing that the code prints can get. It runs no
handler and loads no model library.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from restrike.endpoints.describing import described
from restrike.endpoints.discovery import Found, look_at
from restrike.endpoints.lock import StaleLock, check_lock, lock_path
from restrike.endpoints.places import find_place, installed
from restrike.errors import NotFound, Refused, typed
from restrike.server.worker.ending import class_of


def main(places: Sequence[str]) -> int:
    """Look at all of them, up to the first that fails; returns the exit status."""
    answers = os.dup(1)
    os.dup2(2, 1)
    found: list[dict[str, Any]] = []
    failure: dict[str, Any] | None = None
    for place in places:
        try:
            found += looked_at(place)
        except BaseException as error:
            told = typed(error)
            failure = {"place": place, "kind": class_of(told), "message": told.message}
            break
    with os.fdopen(answers, "w", encoding="utf-8") as file:
        json.dump({"endpoints": found, "failure": failure}, file)
    return 0


def looked_at(text: str) -> Iterator[dict[str, Any]]:
    """The endpoints that `FILE.py[:NAME]`, a module or a registered name means; raises as `look_at`."""
    place = find_place(text)
    if place is None:
        raise NotFound("it is neither a Python file nor a module, nor registered as an endpoint")
    found = look_at(place)
    if text in installed():
        yield _told(found, found.meant().name, served_as=text, place=text)
        return
    code = str(place.file) if place.shown == place.file.name else place.shown
    names = list(found.endpoints) if place.name is None else [found.meant().name]
    for name in names:
        yield _told(found, name, served_as=name, place=f"{code}:{name}")


def _told(found: Found, name: str, *, served_as: str, place: str) -> dict[str, Any]:
    return {
        "name": served_as,
        "place": place,
        "source": found.source,
        "described": described(found.endpoints[name]),
        "lock": _lock(found, name),
    }


def _lock(found: Found, name: str) -> dict[str, Any]:
    """Whether there is a lock, and what of this endpoint is not as it says."""
    if not lock_path(found.place.file).is_file():
        return {"state": "none", "findings": []}
    try:
        check_lock(found)
    except StaleLock as error:
        mine = [finding.message for finding in error.findings if finding.path == name]
        return {"state": "stale" if mine else "held", "findings": mine}
    except Refused as error:
        return {"state": "torn", "findings": [error.message]}
    return {"state": "held", "findings": []}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

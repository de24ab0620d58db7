"""The lock of a file of endpoints: what they were when somebody last looked at them, down to their source.

It is written beside the file and names no folder; nothing is decided by its date.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restrike.endpoints.describing import described
from restrike.endpoints.discovery import Found
from restrike.errors import Finding, NotFound, Refused
from restrike.keys import bytes_digest
from restrike.store.files import write_file

SCHEMA = 1


class StaleLock(Refused):
    """Endpoints are not what they were when they were locked."""

    def __init__(self, file: str, findings: tuple[Finding, ...]) -> None:
        self._findings = findings
        told = "; ".join(map(str, findings))
        super().__init__(
            f"'{file}' is not what was locked: {told}; if that is meant: restrike endpoints lock"
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each endpoint that changed, and in what."""
        return self._findings


@dataclass(frozen=True, kw_only=True)
class _Sources:
    """Digests of a file's source: of each function and class at its top, and of all the rest of it."""

    parts: Mapping[str, str]
    rest: str


def lock_path(file: Path) -> Path:
    """Where the lock of a file lies."""
    return file.with_suffix(".lock.json")


def write_lock(found: Found) -> Path:
    """Write the lock of a file's endpoints; atomic."""
    path = lock_path(found.place.file)
    write_file(path, (json.dumps(_document(found), indent=2, sort_keys=True) + "\n").encode())
    return path


def check_lock(found: Found) -> None:
    """Compare the endpoints with their lock.

    Raises:
        NotFound: there is no lock.
        Refused: it cannot be read.
        StaleLock: an endpoint changed, was added or removed; each is named.
    """
    path = lock_path(found.place.file)
    if not path.is_file():
        raise NotFound(f"'{found.place.shown}' has no lock '{path.name}'; write one: restrike endpoints lock")
    try:
        locked = json.loads(path.read_text(encoding="utf-8"))
        same_schema = locked["schema"] == SCHEMA
        findings = tuple(_differences(locked, _document(found))) if same_schema else ()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"the lock '{path.name}' is torn; write it anew: restrike endpoints lock") from error
    if not same_schema:
        raise Refused(f"the lock '{path.name}' has schema {locked['schema']!r}, this restrike reads {SCHEMA}")
    if findings:
        raise StaleLock(found.place.shown, findings)


def _document(found: Found) -> dict[str, Any]:
    sources = _sources(found)
    return {
        "schema": SCHEMA,
        "rest": sources.rest,
        "imports": sorted(digest.hex for digest in found.sources[1:]),
        "endpoints": {
            name: {**described(endpoint), "source": sources.parts[endpoint.target.__name__]}
            for name, endpoint in found.endpoints.items()
        },
    }


def _sources(found: Found) -> _Sources:
    """Of an endpoint its own text; everything else in the file may be used by any of them."""
    text = found.place.file.read_text(encoding="utf-8")
    own = {endpoint.target.__name__ for endpoint in found.endpoints.values()}
    parts, rest = dict[str, str](), list[str]()
    for node in ast.parse(text).body:
        source = ast.unparse(node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in own:
            parts[node.name] = bytes_digest(source.encode()).hex
        else:
            rest.append(source)
    return _Sources(parts=parts, rest=bytes_digest("\n".join(rest).encode()).hex)


def _differences(locked: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Finding]:
    before, after = locked["endpoints"], now["endpoints"]
    for name in sorted({*before, *after}):
        if name not in before:
            yield Finding(path=name, message="is new")
        elif name not in after:
            yield Finding(path=name, message="is gone")
        else:
            changed = [part for part in sorted(after[name]) if before[name].get(part) != after[name][part]]
            changed += [
                word
                for word, part in (
                    ("what its file has beside it", "rest"),
                    ("what its file imports", "imports"),
                )
                if locked[part] != now[part]
            ]
            if changed:
                yield Finding(path=name, message=f"changed in {', '.join(changed)}")

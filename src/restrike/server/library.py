"""The workflows of a workspace: stored by name, each change a revision that stays. Runs none.

`workflows/NAME.json` is what counts, beside which the files that it names are found; revisions lie in
`.restrike/workflows/NAME/0001.json`. A change says which revision it is made on, or is a merge patch.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restrike.errors import Conflict, NotFound, Refused, Unknown, typed
from restrike.store.files import write_file
from restrike.workflow.definition import MAX_NAME
from restrike.workflow.references import NAME
from restrike.workflow.source import Source, read_file, read_tree

FOLDER = "workflows"
MAX_REVISIONS = 1000
_SUFFIXES = (".json", ".yaml", ".yml")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A workflow as it is stored. `revision` grows by one with each change; 0: laid there by hand."""

    name: str
    revision: int
    changed: float
    definition: Mapping[str, Any]


class Library:
    """The stored workflows of one workspace."""

    def __init__(self, workspace: Path) -> None:
        self._folder = workspace / FOLDER
        self._revisions = workspace / ".restrike" / FOLDER

    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        found = {path.stem for path in self._folder.glob("*") if path.suffix in _SUFFIXES and path.is_file()}
        return tuple(sorted(name for name in found if re.fullmatch(NAME, name)))

    def source(self, name: str) -> Source:
        """A workflow to run, with the place that its own files are found from; raises Unknown, Refused."""
        return read_file(self._file(name))

    def read(self, name: str, revision: int | None = None) -> Stored:
        """A workflow, or an earlier revision of it; raises Unknown or NotFound."""
        file = self._file(name)
        now = self._newest(name)
        if revision is None or revision == now:
            tree, changed = read_file(file).tree, file.stat().st_mtime
            return Stored(name=name, revision=now, changed=changed, definition=tree)
        kept = self._kept(name, revision)
        if not kept.is_file():
            raise NotFound(f"workflow '{name}' has no revision {revision}; the newest is {now}")
        tree = json.loads(kept.read_text(encoding="utf-8"))
        return Stored(name=name, revision=revision, changed=kept.stat().st_mtime, definition=tree)

    def revisions(self, name: str) -> tuple[int, ...]:
        """The numbers of all revisions that are kept, the newest first."""
        self._file(name)
        return tuple(sorted(self._numbers(name), reverse=True))

    def save(self, name: str, tree: Mapping[str, Any], *, on: int | None = None) -> Stored:
        """Store a workflow; `on` is the revision that it was made from, 0 for a new one.

        Raises:
            Conflict: it was changed meanwhile.
            InvalidWorkflow: it is none by its form.
        """
        with self._alone(name):
            return self._save(name, tree, on)

    def patch(self, name: str, change: Mapping[str, Any], *, on: int | None = None) -> Stored:
        """Merge a change into the newest revision (RFC 7396), so that two changes at once lose nothing."""
        with self._alone(name):
            return self._save(name, merged(dict(self.read(name).definition), change), on)

    def delete(self, name: str) -> None:
        """Remove a workflow; its revisions stay, and jobs that were submitted run on. Raises Unknown."""
        with self._alone(name):
            self._file(name).unlink()

    def _save(self, name: str, tree: Mapping[str, Any], on: int | None) -> Stored:
        now = self._newest(name)
        if on is not None and on != (now if name in self.names() else 0):
            raise Conflict(f"workflow '{name}' is at revision {now}, not {on}; read it and change that")
        source = read_tree(tree, name=name)
        source.findings.check()
        kept = dict(source.tree) | ({"name": name} if source.tree.get("name") not in (None, name) else {})
        data = json.dumps(kept, indent=2, ensure_ascii=False, allow_nan=False).encode()
        write_file(self._kept(name, now + 1), data)
        write_file(self._folder / f"{name}.json", data)
        for suffix in _SUFFIXES[1:]:
            (self._folder / f"{name}{suffix}").unlink(missing_ok=True)
        self._kept(name, now + 1 - MAX_REVISIONS).unlink(missing_ok=True)
        return Stored(name=name, revision=now + 1, changed=time.time(), definition=kept)

    def _file(self, name: str) -> Path:
        for suffix in _SUFFIXES if re.fullmatch(NAME, name) else ():
            if (self._folder / f"{name}{suffix}").is_file():
                return self._folder / f"{name}{suffix}"
        raise Unknown("workflow", name[:MAX_NAME], self.names())

    def _kept(self, name: str, revision: int) -> Path:
        return self._revisions / name / f"{revision:06d}.json"

    def _numbers(self, name: str) -> Iterator[int]:
        yield from (int(path.stem) for path in (self._revisions / name).glob("[0-9]*.json"))

    def _newest(self, name: str) -> int:
        return max(self._numbers(name), default=0)

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Hold a name's lock, also against other processes."""
        if len(name) > MAX_NAME or not re.fullmatch(NAME, name):
            raise Refused(f"'{name[:MAX_NAME]}' is no name: a letter or _, then letters, digits, _ and -")
        try:
            (self._revisions / name).mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._revisions / name, os.O_RDONLY)
        except OSError as error:
            raise typed(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def merged(tree: Any, change: Any) -> Any:
    """JSON merge patch (RFC 7396): objects are merged, null removes, all else replaces."""
    if not isinstance(change, Mapping):
        return change
    found = dict(tree) if isinstance(tree, Mapping) else {}
    for name, value in change.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found

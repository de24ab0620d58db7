"""Where weights are, and the folder that they turn out to be.

A location is resolved to a folder on this machine; nothing here reads weights or imports torch, and no
file outside the checkpoint's own folder is ever named.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from restrike.errors import NotFound, Refused


class NotHere(NotFound):
    """Weights that exist elsewhere and were not brought to this machine yet."""


class Location(Protocol):
    """Something that can be turned into a checkpoint's folder."""

    def resolve(self, files: tuple[str, ...]) -> Checkpoint:
        """Bring the files that match the glob patterns to this machine; raises NotFound or Refused."""
        ...

    def present(self, files: tuple[str, ...]) -> Checkpoint:
        """The folder as it is on this machine, fetching nothing; raises NotHere, NotFound or Refused."""
        ...

    def missing_bytes(self, files: tuple[str, ...]) -> int | None:
        """How much `resolve` would have to fetch; None when that cannot be found out now."""
        ...


@dataclass(frozen=True)
class Checkpoint:
    """A folder of weights and configuration; `name` is what a person calls it and never decides a key.

    `code_trusted` says that the user lets Python code that lies in the folder run.
    """

    root: Path
    name: str
    code_trusted: bool = False

    def json(self, file: str) -> dict[str, Any]:
        """A configuration file as a mapping; raises NotFound or Refused, naming the file."""
        path = self.root / _inside(file)
        if not path.is_file():
            raise NotFound(f"checkpoint '{self.name}' has no {file}")
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise Refused(f"checkpoint '{self.name}': {file} is not valid JSON ({error})") from error
        if not isinstance(value, dict):
            raise Refused(f"checkpoint '{self.name}': {file} is not a JSON object")
        return value

    def has(self, pattern: str) -> bool:
        """Whether any file matches the glob pattern."""
        return next(self.root.glob(_inside(pattern)), None) is not None

    def files(self, patterns: tuple[str, ...]) -> tuple[Path, ...]:
        """The files that match, sorted by their names relative to the root."""
        found = {path for pattern in patterns for path in self.root.glob(_inside(pattern)) if path.is_file()}
        return tuple(sorted(found, key=lambda path: path.relative_to(self.root).as_posix()))


def _inside(pattern: str) -> str:
    # Component names can come from a downloaded index; links inside a folder are the hub cache's own.
    path = PurePosixPath(pattern.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in pattern:
        raise Refused(f"'{pattern}' points outside its checkpoint")
    return pattern


@dataclass(frozen=True)
class Packaged:
    """Weights that ship inside a Python package."""

    package: str
    folder: str = "weights"

    def resolve(self, files: tuple[str, ...]) -> Checkpoint:
        """The package's own folder; `files` is not needed, everything is here already."""
        try:
            root = Path(str(resources.files(self.package))) / self.folder
        except ModuleNotFoundError as error:
            raise NotFound(f"package '{self.package}' is not installed") from error
        if not root.is_dir():
            raise NotFound(f"package '{self.package}' ships no folder '{self.folder}'; reinstall it")
        return Checkpoint(root=root, name=self.package.rsplit(".", 1)[-1])

    def present(self, files: tuple[str, ...]) -> Checkpoint:
        """The package's own folder."""
        return self.resolve(files)

    def missing_bytes(self, files: tuple[str, ...]) -> int:
        """Nothing: it is all here."""
        return 0

    def __str__(self) -> str:
        return f"package {self.package}"


@dataclass(frozen=True)
class Folder:
    """A checkpoint in a folder of this machine."""

    path: Path

    def resolve(self, files: tuple[str, ...]) -> Checkpoint:
        """The folder itself; raises NotFound when there is none."""
        if not self.path.is_dir():
            raise NotFound(f"no checkpoint folder at '{self.path}'")
        return Checkpoint(root=self.path, name=self.path.resolve().name)

    def present(self, files: tuple[str, ...]) -> Checkpoint:
        """The folder itself; raises NotFound when there is none."""
        return self.resolve(files)

    def missing_bytes(self, files: tuple[str, ...]) -> int:
        """Nothing: it is all here."""
        return 0

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class HubRepository:
    """A repository of the Hugging Face hub; HF_HOME, HF_HUB_OFFLINE and HF_TOKEN are its client's own."""

    repository: str
    revision: str | None = None

    def resolve(self, files: tuple[str, ...]) -> Checkpoint:
        """Download what is missing of `files` into the hub's cache.

        Raises:
            NotFound: the repository or revision does not exist, or is not cached while offline.
        """
        from restrike.cards.hub import snapshot

        return Checkpoint(root=snapshot(self.repository, self.revision, files), name=self.repository)

    def present(self, files: tuple[str, ...]) -> Checkpoint:
        """What the hub's cache holds; raises NotHere when it has not all of the repository's models."""
        from restrike.cards.hub import cached, lacking

        root = cached(self.repository, self.revision)
        if root is None:
            raise NotHere(f"'{self}' is not on this machine yet")
        absent = lacking(root)
        if absent:
            raise NotHere(f"'{self}' is not all on this machine yet; it lacks {', '.join(absent)}")
        return Checkpoint(root=root, name=self.repository)

    def missing_bytes(self, files: tuple[str, ...]) -> int | None:
        """What the hub's cache lacks of the files; None when the hub cannot be asked."""
        from restrike.cards.hub import missing_bytes

        return missing_bytes(self.repository, self.revision, files)

    def __str__(self) -> str:
        return f"{self.repository}@{self.revision}" if self.revision else self.repository

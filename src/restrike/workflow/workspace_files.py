"""Finds the files of a workspace that references name: assets, stored prompts, files of earlier runs.

Nothing outside the folder that a reference means is ever named, opened or told of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from restrike.errors import RestrikeError
from restrike.keys import file_digest
from restrike.workflow.findings import no_such
from restrike.workflow.graph import FileInput
from restrike.workflow.references import Asset, Output, StoredPrompt

ASSETS, PROMPTS, LATEST = "assets", "prompts", "latest"
MAX_PROMPT_BYTES = 1 << 20
_MAX_LISTED = 10_000


class Absent(Exception):
    """A file that cannot be used; the message says why and what exists."""


@dataclass(frozen=True)
class WorkspaceFiles:
    """The files of one workspace."""

    workspace: Path

    def asset(self, reference: Asset) -> FileInput:
        """The file of an asset; raises Absent."""
        path = _confined(self.workspace / ASSETS, reference.path, "asset")
        return _input(path, f"$asset.{reference.path}")

    def prompt(self, reference: StoredPrompt) -> str:
        """The text of a stored prompt without its closing line breaks; raises Absent."""
        folder = self.workspace / PROMPTS
        try:
            path = _confined(folder, f"{reference.name}.txt", "prompt")
        except Absent:
            names = [name.removesuffix(".txt") for name in _names(folder) if name.endswith(".txt")]
            raise Absent(no_such("stored prompt", reference.name, names)) from None
        try:
            if path.stat().st_size > MAX_PROMPT_BYTES:
                raise Absent(f"the stored prompt is over {MAX_PROMPT_BYTES} bytes")
            return path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise Absent(f"the stored prompt cannot be read as UTF-8 text: {type(error).__name__}") from error

    def output(self, reference: Output) -> FileInput:
        """The file of an earlier run; `latest` is the newest run that holds the file; raises Absent."""
        run = self.run_of(reference)
        path = _confined(self.workspace / reference.workflow / run, reference.file, "file")
        return _input(path, f"$output.{reference.workflow}/{run}/{reference.file}")

    def run_of(self, reference: Output) -> str:
        """The number of the run that a reference means; raises Absent."""
        runs = sorted(_runs(self.workspace / reference.workflow), key=int)
        if not runs:
            raise Absent(no_such("workflow with runs", reference.workflow, self._workflows()))
        if reference.run != LATEST:
            found = next((run for run in runs if int(run) == int(reference.run)), None)
            if found is None:
                raise Absent(no_such("run", reference.run, runs))
            return found
        for run in reversed(runs):
            try:
                _confined(self.workspace / reference.workflow / run, reference.file, "file")
            except Absent:
                continue
            return run
        newest = _names(self.workspace / reference.workflow / runs[-1])
        raise Absent(
            f"no run of '{reference.workflow}' holds '{reference.file}'; the newest has {_list(newest)}"
        )

    def _workflows(self) -> list[str]:
        try:
            return [path.name for path in self.workspace.iterdir() if path.is_dir() and any(_runs(path))]
        except OSError:
            return []


def _runs(folder: Path) -> Iterator[str]:
    try:
        yield from (path.name for path in folder.iterdir() if path.name.isdecimal() and path.is_dir())
    except OSError:
        return


def _confined(root: Path, name: str, kind: str) -> Path:
    """A regular file below a folder, by its relative name; a link that leads out is as good as absent."""
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts or "\\" in name or ":" in name or "\0" in name:
        raise Absent(
            f"an {kind} is named by its path inside its folder, without '..'".replace("an file", "a file")
        )
    path = root / relative
    try:
        inside = path.resolve(strict=True).is_relative_to(root.resolve(strict=True))
        if inside and path.is_file():
            return path
    except OSError:
        pass
    raise Absent(no_such(kind, name, _names(root)))


def _names(root: Path) -> list[str]:
    """The relative names of the files below a folder, not following links to folders."""
    found: list[str] = []
    for path in root.rglob("*"):
        if len(found) >= _MAX_LISTED:
            break
        if path.is_file() and path.resolve().is_relative_to(root.resolve()):
            found.append(path.relative_to(root).as_posix())
    return found


def _list(names: list[str]) -> str:
    return ", ".join(sorted(names)[:20]) or "no files"


def _input(path: Path, shown: str) -> FileInput:
    try:
        return FileInput(path=path, digest=file_digest(path), shown=shown)
    except RestrikeError as error:
        raise Absent(f"the file cannot be read: {type(error).__name__}") from error

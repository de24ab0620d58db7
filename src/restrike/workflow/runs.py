"""Run folders: `<workspace>/<workflow>/<number>/` with a run's own files, its definition and its manifest.

A folder belongs to one run; nothing in it is shared with the store or with another run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from restrike.engine.counts import Executed, executed_of
from restrike.errors import NotFound, Refused, RestrikeError, typed
from restrike.store.files import PARTIAL, swap_file, write_file
from restrike.store.owner import Owner
from restrike.workflow.graph import Graph
from restrike.workflow.references import NAME

MANIFEST, DEFINITION = "manifest.json", "workflow.json"
SCHEMA = 1
_NUMBER = r"[0-9]{1,9}"


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """One file of a run: relative name, key (if it has one) and digest of its bytes; encoded anew or not."""

    file: str
    key: str | None
    sha256: str
    size_bytes: int
    reused: bool


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """What became of one action.

    `status` is `reused`, `computed`, `failed` or `cancelled`. `origin` names the run that computed the value
    first; `reason` says why it was not reused or not kept, or why it failed. `executed` tells how a
    generation of this run was executed.
    """

    action: str
    label: str
    status: str
    seconds: float
    key: str | None = None
    value: str | None = None
    origin: str = ""
    reason: str = ""
    files: tuple[FileRecord, ...] = ()
    executed: Executed | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A run as it stands. `status` is `running`, `finished`, `failed` or `cancelled`.

    `notices` say what the expansion decided by itself, such as which steps do not run.
    """

    run: str
    workflow: str
    status: str
    owner: str
    started: float
    ended: float | None = None
    seed: int
    variables: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    error: str = ""
    schema: int = SCHEMA

    @property
    def is_interrupted(self) -> bool:
        """Whether it says that it runs while its process is gone."""
        return self.status == "running" and Owner.parse(self.owner).is_dead()


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """`workflow/0003`, as people and references name it."""
        return f"{self.path.parent.name}/{self.path.name}"

    @classmethod
    def create(cls, workspace: Path, workflow: str) -> RunFolder:
        """A new folder with the next number; two processes never get the same one."""
        parent = workspace / workflow
        try:
            parent.mkdir(parents=True, exist_ok=True)
            number = max((int(path.name) for path in _numbered(parent)), default=0) + 1
            while True:
                try:
                    (parent / f"{number:04d}").mkdir()
                    return cls(parent / f"{number:04d}")
                except FileExistsError:
                    number += 1
        except OSError as error:
            raise typed(error) from error

    @classmethod
    def open(cls, workspace: Path, name: str) -> RunFolder:
        """The folder of `workflow/number` or `workflow/latest`; raises NotFound, saying which exist."""
        workflow, _, number = name.partition("/")
        if not re.fullmatch(NAME, workflow):
            raise NotFound(f"'{name}' names no run; it is WORKFLOW/NUMBER or WORKFLOW/latest")
        parent = workspace / workflow
        numbers = [path.name for path in _numbered(parent)]
        if not numbers:
            raise NotFound(f"workflow '{workflow}' has no runs in '{workspace}'")
        given = f"{int(number):04d}" if re.fullmatch(_NUMBER, number) else number
        wanted = numbers[-1] if number in ("", "latest") else given
        if wanted not in numbers:
            raise NotFound(f"no run '{name}'; there are {', '.join(numbers[-10:])}")
        return cls(parent / wanted)

    def before(self) -> Manifest | None:
        """The manifest of the newest earlier run of the workflow that finished; None when none did."""
        for path in reversed(_numbered(self.path.parent)):
            if int(path.name) < int(self.path.name):
                with suppress(RestrikeError):
                    found = RunFolder(path).manifest()
                    if found.status == "finished":
                        return found
        return None

    def write_definition(self, tree: Mapping[str, Any]) -> None:
        """Keep the resolved definition, with all seeds drawn and all variables set."""
        write_file(self.path / DEFINITION, _json(tree))

    def write(self, manifest: Manifest) -> None:
        """Replace the manifest, atomically; durably and laid out for people when the run begins and ends."""
        tree = asdict(manifest)
        if manifest.status == "running" and manifest.steps:
            swap_file(self.path / MANIFEST, json.dumps(tree, ensure_ascii=False).encode())
        else:
            write_file(self.path / MANIFEST, _json(tree))

    def manifest(self) -> Manifest:
        """The manifest; raises NotFound or Refused."""
        path = self.path / MANIFEST
        try:
            tree = json.loads(path.read_text(encoding="utf-8"))
            Owner.parse(tree["owner"])
            steps = tuple(_step(step) for step in tree.pop("steps"))
            return Manifest(**tree | {"notices": tuple(tree["notices"])}, steps=steps)
        except FileNotFoundError as error:
            raise NotFound(f"run '{self.name}' has no manifest") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Refused(f"the manifest of run '{self.name}' cannot be read: {error}") from error

    def definition(self) -> Path:
        """The file of the resolved definition."""
        return self.path / DEFINITION

    def delete(self) -> None:
        """Remove the run with all its files; no other run and no kept result needs them."""
        if any(self.path.iterdir()) and not (self.definition().exists() or (self.path / MANIFEST).exists()):
            raise Refused(f"'{self.name}' is a folder that no run made; it stays")
        with self.worked_on():
            shutil.rmtree(self.path)

    def sweep(self) -> None:
        """Remove what a killed process had begun to write; only while the run is held."""
        for partial in self.path.rglob(PARTIAL):
            partial.unlink(missing_ok=True)

    @contextmanager
    def worked_on(self) -> Iterator[None]:
        """Hold the run for the block; raises Refused while another holds it.

        The lock is on the folder itself and dies with its process, on whatever host or container that was.
        """
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            _lock(descriptor)
            yield
        except BlockingIOError as error:
            raise Refused(f"run '{self.name}' is still running; stop it first") from error
        finally:
            os.close(descriptor)


def _step(tree: Mapping[str, Any]) -> StepRecord:
    files = tuple(FileRecord(**file) for file in tree["files"])
    executed = tree.get("executed")
    return StepRecord(
        **{**tree, "files": files, "executed": None if executed is None else executed_of(executed)}
    )


def list_runs(workspace: Path) -> Iterator[RunFolder]:
    """All runs of a workspace, by workflow and number."""
    for parent in sorted(path for path in workspace.glob("*") if path.is_dir()):
        for path in _numbered(parent):
            if (path / MANIFEST).exists():
                yield RunFolder(path)


def begun(folder: RunFolder, graph: Graph, steps: tuple[StepRecord, ...]) -> Manifest:
    """The manifest of a run that begins now, in this process; `steps` were finished before."""
    return Manifest(
        run=folder.name,
        workflow=graph.name,
        status="running",
        owner=str(Owner.here()),
        started=time.time(),
        seed=graph.seed,
        variables=dict(graph.variables),
        notices=graph.notices,
        steps=steps,
    )


def with_step(manifest: Manifest, record: StepRecord) -> Manifest:
    """The manifest with one more step; a step that is settled anew replaces its earlier record."""
    if any(step.action == record.action for step in manifest.steps):
        steps = (record if step.action == record.action else step for step in manifest.steps)
        return replace(manifest, steps=tuple(steps))
    return replace(manifest, steps=(*manifest.steps, record))


def _numbered(parent: Path) -> list[Path]:
    """The folders of runs, in the order of their numbers: the ten thousandth comes last."""
    if not parent.is_dir():
        return []
    found = [path for path in parent.iterdir() if re.fullmatch(_NUMBER, path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name))


def _lock(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # not a POSIX system: nothing keeps two processes from one run there
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _json(tree: Any) -> bytes:
    return (json.dumps(tree, indent=2, ensure_ascii=False, default=os.fspath) + "\n").encode()

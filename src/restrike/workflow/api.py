"""Workflows from Python: open a session, or plan and run a file in the current one's place.

It puts store, workspace and machine together as the settings say, and does no work of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from restrike.engine.capture.modes import checked_mode
from restrike.mint.adoption.choice import cells_for, cells_in_reach, checked_cells
from restrike.settings import settings
from restrike.store.store import Store
from restrike.workflow.expansion import Machine
from restrike.workflow.plan import Plan
from restrike.workflow.runs import Manifest
from restrike.workflow.session import Asked, Session
from restrike.workflow.source import read_file
from restrike.workflow.tasks.registry import Tasks

if TYPE_CHECKING:
    from restrike.engine.compiled.adopter import Adopter
    from restrike.engine.engine import Engine


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A run that ended well: its folder, and the manifest of what became of each step."""

    folder: Path
    manifest: Manifest

    @property
    def files(self) -> tuple[Path, ...]:
        """All files of the run, in the order of the steps."""
        return tuple(self.folder / file.file for step in self.manifest.steps for file in step.files)


def open_session(
    workspace: str | Path | None = None,
    *,
    store: str | Path | None = None,
    device: str | None = None,
    precision: str | None = None,
    allow_code: tuple[str | Path, ...] = (),
    capture: str = "auto",
    cells: str | None = None,
    mint: str | None = None,
) -> Session:
    """A session in a workspace, by default that of RESTRIKE_WORKSPACE and the store of RESTRIKE_STORE.

    `device`, `precision`, `capture`, `cells` and `mint` are as for `restrike.load`; `allow_code` are Python
    files with tasks of your own, which are run. The engine is made, and torch imported, when a generation
    runs.

    Raises:
        Refused, NotFound: a file of `allow_code` cannot be used, there is no such `capture`, `cells` or
            `mint`, or the store's index is of a later version.
    """
    chosen = settings()
    checked_cells(cells, mint)
    return Session(
        workspace=Path(workspace) if workspace is not None else chosen.workspace,
        store=Store(Path(store) if store is not None else chosen.store, limit_bytes=chosen.store_limit_bytes),
        machine=Machine(
            tasks=Tasks(tuple(map(Path, allow_code))),
            device=device or "auto",
            precision=precision,
            cells_now=lambda: cells_in_reach(cells),
        ),
        make_engine=_maker(device, precision, checked_mode(capture), lambda: cells_for(cells, mint)),
    )


def run(workflow: str | Path, /, **values: Any) -> Finished:
    """Run a workflow file in a new folder of the workspace, reusing all that was computed before.

    The values are those of its variables. For another workspace, a seed or `rerun` see `open_session`.

    Raises:
        InvalidWorkflow: with all that is wrong with the file or the values.
        RestrikeError: as the step that failed; what was finished is kept.
    """
    session = open_session()
    manifest = session.run(read_file(Path(workflow)), Asked(values=values))
    return Finished(folder=session.workspace / manifest.run, manifest=manifest)


def plan(workflow: str | Path, /, **values: Any) -> Plan:
    """What `run` would reuse and what it would compute. Computes and writes nothing, imports no torch."""
    return open_session().plan(read_file(Path(workflow)), Asked(values=values))


def _maker(
    device: str | None, precision: str | None, capture: str, cells: Callable[[], Adopter | None]
) -> Callable[[], Engine]:
    def make() -> Engine:
        from restrike.engine.engine import Engine

        return Engine(device=device, precision=precision, capture=capture, cells=cells())

    return make

"""Every example runs offline on the embedded models, is reused whole the second time, and is explained."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from restrike.engine.engine import Engine
from restrike.store.store import Store
from restrike.workflow.expansion import Machine
from restrike.workflow.plan import Status
from restrike.workflow.session import Asked, Session
from restrike.workflow.source import read_file
from restrike.workflow.tasks.registry import Tasks

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.yaml"))


@pytest.fixture(scope="module")
def session(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """One workspace for all examples, so that they reuse each other's steps as a person's would."""
    folder = tmp_path_factory.mktemp("examples")
    return Session(
        workspace=folder,
        store=Store(folder / "store"),
        machine=Machine(tasks=Tasks(), device="cpu"),
        make_engine=lambda: engine,
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_and_is_reused_whole(session: Session, name: str) -> None:
    source = read_file(EXAMPLES / name)
    first = session.run(source, Asked())
    files = [session.workspace / first.run / file.file for step in first.steps for file in step.files]
    assert files
    assert all(path.stat().st_size > 0 for path in files)
    assert all(row.status is Status.REUSED for row in session.plan(source, Asked()).rows)
    again = session.run(source, Asked())
    assert {step.status for step in again.steps} == {"reused"}
    assert [file.sha256 for step in again.steps for file in step.files] == [
        file.sha256 for step in first.steps for file in step.files
    ]
    assert len(session.explain(again.run)) == len(again.steps)


def test_a_nested_workflow_reuses_what_its_file_computed(engine: Engine, tmp_path: Path) -> None:
    for name in ("title-card.yaml", "nested.yaml"):
        shutil.copy(EXAMPLES / name, tmp_path / name)
    session = Session(
        workspace=tmp_path,
        store=Store(tmp_path / "store"),
        machine=Machine(tasks=Tasks(), device="cpu"),
        make_engine=lambda: engine,
    )
    session.run(read_file(tmp_path / "title-card.yaml"), Asked())
    nested = session.run(read_file(tmp_path / "nested.yaml"), Asked())
    reused = {step.action for step in nested.steps if step.status == "reused"}
    assert reused == {f"star/{step}" for step in ("clip", "large", "graded", "titled")}

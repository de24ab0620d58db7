"""What decides a result is in its key: weights and code that change are a miss, with that reason named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Folder
from restrike.errors import Refused
from restrike.models.digits.card import CARD
from restrike.workflow.tasks import registry as tasks_registry
from restrike.workflow.tasks.registry import Tasks

from .lab import OWN_TASKS, Lab, computed, does, files, steps

WEIGHTS = Path(CARD.location.resolve(()).root)  # type: ignore[union-attr]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint folder of the digits' weights, which `generate: FOLDER` finds."""
    path = tmp_path / "checkpoint"
    shutil.copytree(WEIGHTS, path)
    found: Callable[[str], ModelCard] = registry.find

    def find(name: str) -> ModelCard:
        if Path(name).is_dir():
            return replace(CARD, location=Folder(Path(name)))
        return found(name)

    monkeypatch.setattr(registry, "find", find)
    return path


def tree(folder: Path) -> dict[str, Any]:
    return steps(base={"generate": str(folder), "arguments": {"prompt": "a seven", "steps": 2}})


def edit(file: Path) -> None:
    """Change one weight in place."""
    data = bytearray(file.read_bytes())
    data[-5] ^= 0x40
    file.write_bytes(bytes(data))


def test_a_folder_edited_in_place_is_another_model(lab: Lab, folder: Path) -> None:
    first = lab.run(tree(folder))
    edit(folder / "transformer.safetensors")
    second = lab.run(tree(folder))
    assert computed(second) == {"base"}
    assert files(lab, first) != files(lab, second)  # the same engine, which held the old weights
    (why,) = lab.session.explain(second.run)
    assert [difference.path for difference in why.differences] == ["operation.weights"]
    assert "operation.weights" in why.why


def test_weights_that_change_while_they_are_used_give_no_result(lab: Lab, folder: Path) -> None:
    from restrike.workflow.session import Watch

    def meddle(action: str, event: object) -> None:
        if type(event).__name__ == "Succeeded":
            edit(folder / "decoder.safetensors")

    with pytest.raises(Refused, match="changed while they were used"):
        lab.run(tree(folder), watch=Watch(engine=meddle))
    assert lab.store.stats().entries == 0


def test_a_model_folder_that_is_moved_is_the_same_model(lab: Lab, folder: Path) -> None:
    lab.run(tree(folder))
    moved = shutil.move(folder, folder.with_name("elsewhere"))
    assert does(lab.run(tree(Path(moved)))) == {"base": "reused"}
    assert lab.engine.generations == 1


def test_a_copy_of_the_weights_is_the_same_model_by_any_card(lab: Lab, folder: Path) -> None:
    lab.run(steps(base={"generate": "digits", "arguments": {"prompt": "a seven", "steps": 2}}))
    assert does(lab.run(tree(folder))) == {"base": "reused"}


def test_a_bumped_epoch_is_a_miss_that_names_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    shout = steps(a={"task": "own.shout", "arguments": {"text": "x", "log": str(lab.log)}})
    lab.run(shout)
    task = lab.tasks.get("own.shout")
    tasks = Tasks((OWN_TASKS,))
    monkeypatch.setitem(tasks._found, "own.shout", replace(task, epoch="2"))
    other = Lab(lab.root, lab.engine, tasks)
    second = other.run(shout)
    assert computed(second) == {"a"}
    assert "operation.epoch" in other.session.explain(second.run)[0].why
    assert computed(lab.run(shout)) == set()
    assert lab.calls() == 2


USER = '''
from pathlib import Path
from restrike.workflow.tasks.registry import task

@task("mine.read", epoch="1", depends=("data.txt",))
def read(times: int) -> str:
    """The text beside this file."""
    return (Path(__file__).parent / "data.txt").read_text() * times
'''


@pytest.mark.parametrize("edited", ["mine.py", "data.txt"])
def test_a_user_task_or_what_it_depends_on_that_changed_is_a_miss(
    lab: Lab, tmp_path: Path, edited: str
) -> None:
    (tmp_path / "mine.py").write_text(USER)
    (tmp_path / "data.txt").write_text("a")
    read = steps(a={"task": "mine.read", "arguments": {"times": 2}})

    def allowed() -> Lab:
        return Lab(lab.root, lab.engine, Tasks((tmp_path / "mine.py",)))

    assert computed(allowed().run(read)) == {"a"}
    assert computed(allowed().run(read)) == set()
    (tmp_path / edited).write_text((tmp_path / edited).read_text() + "\n# more")
    second = allowed().run(read)
    assert computed(second) == {"a"}
    (why,) = allowed().session.explain(second.run)
    assert all(difference.path.startswith("operation.sources") for difference in why.differences)
    assert why.differences


def test_a_user_task_file_that_is_moved_or_renamed_is_the_same(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(USER.replace(', depends=("data.txt",)', ""))
    (tmp_path / "data.txt").write_text("a")
    read = steps(a={"task": "mine.read", "arguments": {"times": 2}})
    Lab(lab.root, lab.engine, Tasks((tmp_path / "mine.py",))).run(read)
    (tmp_path / "mine.py").rename(tmp_path / "renamed.py")
    again = Lab(lab.root, lab.engine, Tasks((tmp_path / "renamed.py",))).run(read)
    assert computed(again) == set()


def test_a_task_that_is_not_allowed_is_unknown(lab: Lab) -> None:
    assert tasks_registry.GROUP == "restrike.tasks"
    plain = Lab(lab.root, lab.engine, Tasks())
    with pytest.raises(Refused, match="allow-code"):
        plain.run(steps(a={"task": "own.nan"}))

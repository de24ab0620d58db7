"""Tasks of this package and of a user's own file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from restrike.errors import Crashed, NotFound, Refused, Unknown
from restrike.workflow.tasks.registry import Tasks
from restrike.workflow.values import Clip

OWN = """
from __future__ import annotations
from dataclasses import dataclass
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip

@dataclass(frozen=True)
class Half:
    first: bool

@task("mine.half", epoch="3", depends=("table.txt",))
def half(clip: Clip, first: bool = True) -> Clip:
    "Half of a clip."
    return clip.frame(0 if Half(first).first else -1)

@task("mine.noise", epoch="1", draws=True, side_effects=True)
def noise(low, *, seed: int) -> float:
    return low + seed
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "table.txt").write_text("1")
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    return path


def test_a_task_says_what_it_takes() -> None:
    task = Tasks().get("video.loop")
    assert task.summary == "Repeat a clip."
    assert task.required() == ("clip",)
    assert task.defaults() == {"count": None, "seconds": None, "ping_pong": False}
    assert task.returns is Clip
    assert task.sources == ()


def test_an_unknown_task_is_named_with_its_neighbour() -> None:
    with pytest.raises(Unknown, match=r"did you mean 'video.concat'\?.*--allow-code FILE"):
        Tasks().get("video.concatenate")


def test_the_seed_is_no_argument() -> None:
    assert "seed" not in Tasks().get("text.choose").parameters()


def test_tasks_of_an_allowed_file(own: Path) -> None:
    tasks = Tasks((own,))
    half, noise = tasks.get("mine.half"), tasks.get("mine.noise")
    assert (half.epoch, half.side_effects, half.draws) == ("3", False, False)
    assert (noise.side_effects, noise.draws, list(noise.parameters())) == (True, True, ["low"])
    assert len(half.sources) == 2
    assert len(noise.sources) == 1
    assert noise.checked("low", [1]) == [1]
    with pytest.raises(Unknown):
        Tasks().get("mine.half")


def test_an_edited_file_is_another_task(own: Path) -> None:
    before = Tasks((own,)).get("mine.half")
    own.write_text(OWN + "\n# edited")
    after = Tasks((own,)).get("mine.half")
    assert before.sources[0] != after.sources[0]
    assert before.sources[1] == after.sources[1]
    (own.parent / "table.txt").write_text("2")
    assert Tasks((own,)).get("mine.half").sources[1] != after.sources[1]


def test_what_is_wrong_with_a_file_is_said(own: Path, tmp_path: Path) -> None:
    def holds(text: str) -> tuple[Path, ...]:
        own.write_text(text)
        return (own,)

    with pytest.raises(NotFound, match="no task file"):
        Tasks((tmp_path / "gone.py",))
    with pytest.raises(Crashed, match="failed on import: ZeroDivisionError"):
        Tasks(holds("1 / 0"))
    with pytest.raises(Refused, match="registers no task"):
        Tasks(holds("x = 1"))
    with pytest.raises(Refused, match=r"'text.join', which exists already"):
        Tasks(holds(OWN.replace("mine.noise", "text.join")))
    with pytest.raises(Refused, match=r"'Half' is no name for a task"):
        Tasks(holds(OWN.replace("mine.half", "Half")))
    with pytest.raises(NotFound, match=r"depends on 'other.txt'"):
        Tasks(holds(OWN.replace("table.txt", "other.txt")))
    with pytest.raises(Refused, match=r"'mine\.half', which exists already"):
        Tasks(holds(OWN.replace("mine.noise", "mine.half")))


def test_what_a_file_imports_is_part_of_its_tasks(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    far = tmp_path / "restrike_far.py"
    far.write_text("V = 1\n")
    (tmp_path / "restrike_near.py").write_text("def f():\n    from restrike_far import V\n")
    alone = Tasks((own,)).get("mine.noise").sources
    # Installed modules are not in it: they are trusted to bump their epochs.
    own.write_text(OWN + "\nimport json\nimport numpy.random\nfrom PIL import Image\nimport no_such")
    with pytest.raises(Crashed, match="no_such"):
        Tasks((own,))
    own.write_text(OWN + "\nimport json\nimport numpy.random\nfrom PIL import Image")
    assert len(Tasks((own,)).get("mine.noise").sources) == len(alone) == 1
    own.write_text(OWN + "\nimport restrike_near")
    both = Tasks((own,)).get("mine.noise").sources
    assert len(both) == 3
    far.write_text("V = 22\n")
    edited = Tasks((own,)).get("mine.noise").sources
    assert (edited[0], edited[2]) == (both[0], both[2])
    assert edited[1] != both[1]
    # This process has the old code of what it imported: not to be kept under the name of the new.
    (tmp_path / "restrike_near.py").write_text("V = 3\n")
    with pytest.raises(Refused, match=r"restrike_near.*changed since it was imported"):
        Tasks((own,))
    monkeypatch.delitem(sys.modules, "restrike_near")

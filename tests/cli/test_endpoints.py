"""`restrike endpoints`: what it prints and how it leaves, on the example that users are shown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli.conftest import Restrike
from restrike.errors import RULES
from restrike.media import provenance_of, read

EXAMPLE = Path(__file__).parents[2] / "examples" / "poster.py"
RUN = ("endpoints", "run", "poster.py", "--slot", "pipeline=shapes", "--seed", "3")


@pytest.fixture(autouse=True)
def poster(restrike: Restrike, tmp_path: Path) -> Path:
    """The example, in the folder in which the command runs."""
    return Path(shutil.copy(EXAMPLE, tmp_path / "poster.py"))


def test_the_example_is_whole_and_fills_its_slot(restrike: Restrike) -> None:
    outcome = restrike("endpoints", "check", "poster.py", "--slot", "pipeline=shapes")
    assert (outcome.code, outcome.out) == (0, "poster: whole, compiles 3 payloads\n")
    found = restrike("endpoints", "list", "poster.py", "--json").json["endpoints"]["poster"]
    assert set(found["handlers"]["poster"]["request"]["properties"]) >= {"shape", "frames", "steps"}
    assert found["compile"]["slot"] == "pipeline"
    assert "slot pipeline: text-to-video, to be filled" in restrike("endpoints", "list", "poster.py").out


def test_the_example_runs(restrike: Restrike, tmp_path: Path) -> None:
    payload = '{"shape": "star", "frames": 1, "steps": 2}'
    outcome = restrike(*RUN, "--payload", payload, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["notices"] == ["steps 2 is not within 4 to 50; 4 was used"]
    assert "4 was used" in outcome.err
    (file,) = outcome.json["files"]
    made = provenance_of(tmp_path / file["path"])
    assert made is not None
    assert (made.card, made.seed, made.arguments["prompt"]) == ("shapes", 3, "a red star moving left")
    again = restrike(*RUN, "--payload", payload, "--json").json["files"]
    assert again[0]["sha256"] == file["sha256"]


def test_a_clip_of_a_payload_in_a_file(restrike: Restrike, tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text('{"steps": 4}')
    (tmp_path / "made").mkdir()
    outcome = restrike(*RUN, "--payload", "@payload.json", "--output-dir", "made")
    assert outcome.code == 0, outcome.err
    path, value = outcome.out.splitlines()
    assert json.loads(value)["path"] == path
    assert len(read(tmp_path / path).frames_THWC) == 17


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check", "gone.py"), "no file at 'gone.py'"),
        (("check", "nothing-so-called"), "neither a Python file nor a module"),
        (("check", "poster.py", "--slot", "pipelin=shapes"), "did you mean 'pipeline'"),
        (("check", "poster.py", "--slot", "pipeline=digits"), "which card 'digits' does not do"),
        (("check", "poster.py", "--slot", "pipeline"), "is not NAME=CARD"),
        (("run", "poster.py"), "slot 'pipeline' of endpoint 'poster' has no model"),
        (("run", "poster.py:postr", "--slot", "pipeline=shapes"), "did you mean 'poster'"),
        (
            (*RUN[1:], "--payload", '{"steps": 400}'),
            "payload.steps: input should be less than or equal to 100",
        ),
        ((*RUN[1:], "--payload", "{"), "payload: invalid JSON"),
        ((*RUN[1:], "--payload", "@gone.json"), "no payload file"),
        ((*RUN[1:], "--handler", "postr"), "unknown handler"),
        ((*RUN[1:], "--output-dir", "nowhere"), "no folder at 'nowhere'"),
        (("run", "digits", "--payload", "{}"), "payload.prompt: field required"),
    ],
)
def test_what_is_refused_exits_as_refused(restrike: Restrike, arguments: tuple[str, ...], words: str) -> None:
    outcome = restrike("endpoints", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("kind", list(RULES), ids=lambda kind: kind.__name__)
def test_each_class_of_failure_has_its_exit_code(restrike: Restrike, poster: Path, kind: type) -> None:
    raised = (
        f"    from restrike.errors import {kind.__name__}\n    raise {kind.__name__}('so it is')\n    steps ="
    )
    poster.write_text(poster.read_text().replace("    steps =", raised))
    outcome = restrike(*RUN, "--json")
    assert outcome.code == RULES[kind].exit_code
    assert outcome.json["error"]["message"] == "so it is"


def test_an_exception_of_its_own_is_a_crash(restrike: Restrike, poster: Path) -> None:
    poster.write_text(poster.read_text().replace("    steps =", "    raise ValueError('odd')\n    steps ="))
    outcome = restrike(*RUN)
    assert outcome.code == 1
    assert "handler 'poster' of endpoint 'poster' at poster.py:" in outcome.err


def test_a_target_that_the_card_lacks_is_refused_before_a_load(restrike: Restrike, poster: Path) -> None:
    poster.write_text(poster.read_text().replace('targets=("transformer",)', 'targets=("unet",)'))
    for arguments in (("endpoints", "check"), ("mint", "--dry-run")):
        outcome = restrike(*arguments, "poster.py", "--slot", "pipeline=shapes")
        assert outcome.code == 2
        assert "there is no target 'unet'" in outcome.err


def test_an_edit_makes_a_lock_stale_and_names_the_function(restrike: Restrike, poster: Path) -> None:
    assert restrike("endpoints", "lock", "poster.py").out.endswith("poster.lock.json\n")
    assert "as locked" in restrike("endpoints", "check", "poster.py").out
    poster.write_text(poster.read_text().replace("moving left", "moving right"))
    outcome = restrike("endpoints", "check", "poster.py", "--json")
    assert outcome.code == 2
    assert outcome.json["error"]["findings"] == [{"path": "poster", "message": "changed in source"}]


def test_what_is_installed_is_listed(restrike: Restrike) -> None:
    assert ["digits", "card"] in [line.split() for line in restrike("endpoints", "list").out.splitlines()]
    assert "shapes" in restrike("endpoints", "list", "--json").json["cards"]


def test_a_card_runs_as_an_endpoint(restrike: Restrike, tmp_path: Path) -> None:
    payload = '{"prompt": "a seven", "steps": 2}'
    outcome = restrike("endpoints", "run", "digits", "--payload", payload, "--seed", "7")
    assert outcome.code == 0
    assert (tmp_path / "digits-0.png").is_file()


def test_slots_are_of_endpoints_alone(restrike: Restrike) -> None:
    outcome = restrike("mint", "digits", "--slot", "pipeline=shapes", "--dry-run")
    assert outcome.code == 2
    assert "is no endpoint" in outcome.err

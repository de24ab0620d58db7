"""What bad input gets: one line on stderr, exit code 2, nothing on stdout, no file, no traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli.conftest import SEVEN, Restrike

GENERATE = ("generate", "a seven", "--card", "digits")

BAD = {
    "no prompt": (("generate", "--card", "digits"), "say what to make"),
    "empty prompt": (("generate", " ", "--card", "digits"), "prompt is empty"),
    "prompt without quotes": (("generate", "a", "seven", "--card", "digits"), '"a seven"'),
    "unknown card": (("generate", "x", "--card", "digit"), "did you mean 'digits'?"),
    "card folder that is not there": (("generate", "x", "--card", "./gone"), "./gone"),
    "card without weights": (("generate", "x", "--card", "wan"), "wan"),
    "wrong size": ((*GENERATE, "--size", "64x8"), "width 64: card 'digits' takes only 8"),
    "size of the file": ((*GENERATE, "--size", "256x256"), "8x8 is written 32 times as large, 256x256"),
    "card that is a file": (("generate", "x", "--card", __file__), "is a file; a checkpoint is a folder"),
    "card in other letters": (("generate", "x", "--card", "Digits"), "did you mean 'digits'?"),
    "odd size": ((*GENERATE, "--size", "64"), "64x64"),
    "too many frames": ((*GENERATE, "--frames", "9"), "frames 9"),
    "NaN guidance": ((*GENERATE, "--guidance", "nan"), "guidance nan"),
    "infinite shift": ((*GENERATE, "--shift", "inf"), "shift inf"),
    "no steps": ((*GENERATE, "--steps", "0"), "steps 0"),
    "no pictures": ((*GENERATE, "-n", "0"), "at least 1"),
    "item out of the batch": ((*GENERATE, "-n", "2", "--item", "2"), "pictures 0 to 1"),
    "negative item": ((*GENERATE, "--item", "-1"), "-1"),
    "unknown solver": ((*GENERATE, "--solver", "heun"), "euler, sde, unipc"),
    "unknown guidance": ((*GENERATE, "--guidance-mode", "magic"), "none, cfg, batched"),
    "rising sigmas": ((*GENERATE, "--sigmas", "0.5,1"), "sigmas"),
    "sigmas in words": ((*GENERATE, "--sigmas", "one"), "sigmas 'one'"),
    "setting without value": ((*GENERATE, "--set", "x"), "KEY=VALUE"),
    "torn setting": ((*GENERATE, "--set", "x=[1,"), "not valid JSON"),
    "setting for a driven card": ((*GENERATE, "--set", "x=1"), "takes no pipeline arguments"),
    "unknown device": ((*GENERATE, "--device", "tpu"), "unknown device 'tpu'"),
    "precision": ((*GENERATE, "--precision", "float8"), "float32, bfloat16"),
    "unknown extension": ((*GENERATE, "--extension", "step-time"), "did you mean 'step-times'?"),
    "exact and skipping": ((*GENERATE, "--exact", "--extension", "residual-skip"), "residual-skip"),
    "unknown suffix": ((*GENERATE, "-o", "x.bmp"), "did you mean '.png'?"),
    "no suffix": ((*GENERATE, "-o", "x"), ".png"),
    "no folder": ((*GENERATE, "-o", "gone/x.png"), "gone"),
    "lossless JPEG": ((*GENERATE, "-o", "x.jpg", "--lossless"), "JPEG"),
    "image that is not there": ((*GENERATE, "--image", "gone.png"), "gone.png"),
    "file that is not there": (("generate", "--from", "gone.png"), "gone.png"),
    "unknown flag": ((*GENERATE, "--step", "3"), "--steps"),
    "flag of another kind": ((*GENERATE, "--steps", "many"), "--steps"),
    "unknown verb": (("generat",), "did you mean 'generate'?"),
    "inspect nothing": (("inspect",), "FILE"),
    "inspect a file that is not there": (("inspect", "gone.png"), "gone.png"),
    "show an unknown card": (("cards", "show", "gone"), "unknown card 'gone'"),
    "show a folder without an index": (("cards", "show", "."), "model_index.json"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_line(restrike: Restrike, tmp_path: Path, name: str) -> None:
    arguments, expected = BAD[name]
    outcome = restrike(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert expected in outcome.err
    assert outcome.err.startswith("restrike: ")
    assert outcome.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["unknown card", "no steps", "unknown flag", "unknown extension"])
def test_with_json_a_refusal_is_an_object_on_stdout_too(restrike: Restrike, name: str) -> None:
    arguments, expected = BAD[name]
    outcome = restrike(*arguments, "--json")
    assert outcome.code == 2
    assert outcome.json["error"]["exit_code"] == 2
    assert expected in outcome.json["error"]["message"]
    assert outcome.err == f"restrike: {outcome.json['error']['message']}\n"


def test_debug_shows_the_traceback(restrike: Restrike) -> None:
    outcome = restrike("--debug", *GENERATE, "--steps", "0")
    assert outcome.code == 2
    assert "Traceback" in outcome.err
    assert outcome.err.endswith("restrike: steps 0 is not at least 1\n")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user whom permissions bind")
def test_a_folder_without_write_permission_is_refused(restrike: Restrike, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    outcome = restrike(*SEVEN)
    tmp_path.chmod(0o700)
    assert outcome.code == 2
    assert "no permission" in outcome.err


def test_no_write_permission_is_found_before_anything_runs(
    restrike: Restrike, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write anywhere, so the system's answer is replaced; the engine must not be reached.
    monkeypatch.setattr("restrike.media.publish.os.access", lambda *_: False)
    monkeypatch.setattr("restrike.engine.engine.Engine.stream", None)
    outcome = restrike(*SEVEN, "-o", "x.png")
    assert (outcome.code, outcome.err) == (2, "restrike: cannot write 'x.png': no permission\n")


def test_a_torn_index_of_a_checkpoint_is_refused(restrike: Restrike, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model_index.json").write_text('{"_class_name": "Wan')
    outcome = restrike("generate", "x", "--card", "model")
    assert outcome.code == 2
    assert "model_index.json is not valid JSON" in outcome.err


def test_an_index_without_a_class_is_refused(restrike: Restrike, tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text(json.dumps({"a": 1}))
    outcome = restrike("generate", "x", "--card", ".")
    assert outcome.code == 2
    assert "_class_name" in outcome.err

"""`restrike inspect`: what is in a file and what made it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from cli.conftest import SEVEN, Restrike
from restrike.media import Audio, read, write


def test_a_file_of_ours_tells_all(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.png", "--negative", "a [red] two")
    outcome = restrike("inspect", "a.png")
    assert (outcome.code, outcome.err) == (0, "")
    for expected in (
        "PNG",
        "256x256",
        "digits",
        "seed",
        "7, picture 0",
        "a [red] two",
        "torch",
        "--from a.png",
    ):
        assert expected in outcome.out


def test_json_holds_the_whole_provenance(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.png", "--item", "2")
    found = restrike("inspect", "a.png", "--json").json
    assert found["container"] == "PNG"
    assert (found["width"], found["height"], found["frames"], found["fps"]) == (256, 256, 1, None)
    assert found["size_bytes"] == Path("a.png").stat().st_size
    assert found["provenance"]["card"] == "digits"
    assert (found["provenance"]["seed"], found["provenance"]["item"]) == (7, 2)
    assert found["provenance"]["arguments"]["prompt"] == "a seven"


def test_a_file_of_another_program_is_shown_and_named_so(restrike: Restrike, tmp_path: Path) -> None:
    frames_THWC = np.zeros((8, 16, 24, 3), np.uint8)
    sound = Audio(samples_CN=np.zeros((1, 16000), np.float32), rate_hz=16000)
    write(tmp_path / "x.mp4", frames_THWC, fps=8.0, audio=sound)
    outcome = restrike("inspect", "x.mp4")
    assert outcome.code == 0
    assert "24x16, 8 frames at 8 a second (1.0 s)" in outcome.out
    assert "another program" in outcome.out
    found = restrike("inspect", "x.mp4", "--json").json
    assert found["provenance"] is None
    assert found["audio"] == {"rate_hz": 16000, "channels": 1}


def test_a_torn_file_is_refused(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.png")
    Path("a.png").write_bytes(Path("a.png").read_bytes()[:200])
    outcome = restrike("inspect", "a.png")
    assert outcome.code == 2
    assert outcome.err.startswith("restrike: cannot read 'a.png'")


def test_a_command_for_the_shell_is_quoted(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a b.png")
    assert "--from 'a b.png'" in restrike("inspect", "a b.png").out


def test_the_cells_that_took_part_are_shown(restrike: Restrike, tmp_path: Path) -> None:
    restrike(*SEVEN, "-o", "a.png", "--cells", "off")
    assert "none are named" in restrike("inspect", "a.png").out
    plain = read(tmp_path / "a.png")
    assert plain.provenance is not None
    made = replace(plain.provenance, cells=("154884587d3e0123456789", "feedfeedfeedfeed0000"))
    write(tmp_path / "b.png", plain.frames_THWC, provenance=made)
    told = restrike("inspect", "b.png").out
    assert "154884587d3e0123, feedfeedfeedfeed" in told
    assert "none are named" not in told


def test_explain_of_a_picture_points_here(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a b.png")
    outcome = restrike("explain", "a b.png")
    assert outcome.code == 2
    assert "'a b.png' is a file" in outcome.err
    assert "restrike inspect 'a b.png'" in outcome.err
    assert "is a file" not in restrike("explain", "c.png").err

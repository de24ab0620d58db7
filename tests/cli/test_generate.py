"""`restrike generate`: where pictures go, what is said, and that the same request is the same file."""

from __future__ import annotations

from pathlib import Path

from cli.conftest import SEVEN, Restrike
from restrike.media import read


def test_a_picture_is_written_and_its_path_is_all_of_stdout(restrike: Restrike, tmp_path: Path) -> None:
    outcome = restrike(*SEVEN, "-o", "seven.png")
    assert (outcome.code, outcome.out, outcome.err) == (0, "seven.png\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["seven.png"]


def test_a_tiny_picture_is_enlarged_and_native_keeps_its_size(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "eye.png")
    restrike(*SEVEN, "-o", "native.png", "--native")
    eye, native = read("eye.png"), read("native.png")
    assert eye.frames_THWC.shape == (1, 256, 256, 3)
    assert native.frames_THWC.shape == (1, 8, 8, 3)
    assert (eye.frames_THWC[:, ::32, ::32] == native.frames_THWC).all()
    assert eye.provenance is not None
    assert eye.provenance.arguments["scale"] == 32


def test_a_name_is_made_of_prompt_and_seed_and_no_file_is_overwritten(restrike: Restrike) -> None:
    assert restrike(*SEVEN).out == "a-seven-7.png\n"
    first = Path("a-seven-7.png").read_bytes()
    assert restrike(*SEVEN, "--steps", "3").out == "a-seven-7_2.png\n"
    assert restrike(*SEVEN).out == "a-seven-7_3.png\n"
    assert Path("a-seven-7.png").read_bytes() == first == Path("a-seven-7_3.png").read_bytes()


def test_a_given_name_is_overwritten(restrike: Restrike) -> None:
    Path("x.png").write_bytes(b"old")
    assert restrike(*SEVEN, "-o", "x.png").code == 0
    assert read("x.png").provenance is not None


def test_a_given_folder_gets_the_made_up_name(restrike: Restrike, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    assert restrike(*SEVEN, "-o", "pictures").out == "pictures/a-seven-7.png\n"


def test_several_pictures_are_numbered_and_one_of_them_can_be_made_alone(restrike: Restrike) -> None:
    outcome = restrike(*SEVEN, "-n", "3", "-o", "out.png")
    assert outcome.out.split() == ["out-0.png", "out-1.png", "out-2.png"]
    assert restrike(*SEVEN, "--item", "2", "-o", "alone.png").code == 0
    assert Path("alone.png").read_bytes() == Path("out-2.png").read_bytes() != Path("out-1.png").read_bytes()


def test_a_drawn_seed_is_in_the_name_and_differs(restrike: Restrike) -> None:
    made = [restrike("generate", "a seven", "--card", "digits").out for _ in range(2)]
    assert made[0] != made[1]


def test_json_is_one_object_that_says_everything(restrike: Restrike) -> None:
    outcome = restrike(*SEVEN, "--json", "-n", "2", "--native")
    assert outcome.code == 0
    assert [file["path"] for file in outcome.json["files"]] == ["a-seven-7-0.png", "a-seven-7-1.png"]
    assert outcome.json["files"][1] == {
        "path": "a-seven-7-1.png",
        "item": 1,
        "width": 8,
        "height": 8,
        "frames": 1,
        "fps": 8.0,
        "scale": 1,
    }
    assert outcome.json["seed"] == 7
    assert outcome.json["card"] == "digits"
    assert outcome.json["arguments"]["prompt"] == "a seven"
    assert outcome.json["notices"] == []


def test_pictures_made_at_once_are_written_in_order(restrike: Restrike) -> None:
    outcome = restrike(*SEVEN, "--json", "-n", "3", "--batch", "2", "--native")
    assert [file["item"] for file in outcome.json["files"]] == [0, 1, 2]
    assert outcome.json["notices"] == []


def test_a_batch_that_cannot_be_is_a_notice(restrike: Restrike) -> None:
    outcome = restrike(*SEVEN, "--json", "-n", "2", "--batch", "2", "--exact")
    assert outcome.json["notices"] == [
        "its pictures are made one after the other and not as a batch: the request is exact"
    ]


def test_a_batch_of_none_is_refused(restrike: Restrike) -> None:
    outcome = restrike(*SEVEN, "--batch", "0")
    assert outcome.code == 2
    assert "a batch limit of 0 is below 1" in outcome.err


def test_an_unknown_word_is_a_notice_on_stderr_and_in_json(restrike: Restrike) -> None:
    outcome = restrike("generate", "a purple seven", "--card", "digits", "--json")
    assert outcome.code == 0
    assert "purple" in outcome.json["notices"][0]
    assert outcome.err.startswith("notice: ")


def test_an_observer_reports_on_stderr(restrike: Restrike) -> None:
    outcome = restrike(*SEVEN, "--extension", "step-times", "-o", "x.png")
    assert outcome.out == "x.png\n"
    assert "step-times: transformer: 8 steps" in outcome.err


def test_each_flag_reaches_the_request(restrike: Restrike) -> None:
    flags = ("--steps", "5", "--guidance", "3", "--guidance-mode", "batched")
    more = ("--guidance-interval", "0.1", "0.9", "--guidance-every", "2", "--solver", "unipc", "--shift", "2")
    sizes = ("--size", "8x8", "--frames", "1", "--fps", "4", "--negative", "a two", "--precision", "bfloat16")
    said = restrike(*SEVEN, *flags, *more, *sizes, "--exact", "--device", "cpu", "--json").json["arguments"]
    expected = {
        "steps": 5,
        "guidance": 3.0,
        "guidance_mode": "batched",
        "guidance_interval": [0.1, 0.9],
        "guidance_every": 2,
        "solver": "unipc",
        "shift": 2.0,
        "width": 8,
        "height": 8,
        "frames": 1,
        "fps": 4.0,
        "negative_prompt": "a two",
    }
    assert {name: said[name] for name in expected} == expected


def test_sigmas_are_the_schedule(restrike: Restrike) -> None:
    said = restrike(*SEVEN, "--sigmas", "1,0.6,0.2", "--json").json["arguments"]
    assert (said["sigmas"], said["steps"]) == ([1.0, 0.6, 0.2], 3)


def test_a_preview_without_a_terminal_is_a_notice(restrike: Restrike) -> None:
    outcome = restrike(*SEVEN, "--preview", "-o", "x.png")
    assert (outcome.code, outcome.out) == (0, "x.png\n")
    assert outcome.err.startswith("notice: no preview")

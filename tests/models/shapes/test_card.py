"""The shapes card through the engine, with the weights that ship."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from restrike.cards import registry
from restrike.cards.checkpoint import Folder
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.gate import interleave_gate
from restrike.errors import NotFound, Refused
from restrike.models.shapes.card import CARD
from restrike.models.shapes.checker import read_clips
from restrike.models.shapes.evaluate import HELD_OUT_BAR, TRAINED_BAR, clip_of, score_of_generated
from restrike.models.shapes.scene import CLIP_FRAMES, HELD_OUT, SIDE_PX, TRAINED

WEIGHTS = Path(str(registry.__file__)).parents[1] / "models" / "shapes" / "weights"
RED_CIRCLE = Request(prompt="a large red circle moving left on a white background", seed=7)


@pytest.fixture(scope="module")
def shapes() -> Engine:
    engine = Engine(device="cpu")
    engine.load("shapes")
    return engine


def test_the_card_is_found_valid_and_free_of_torch() -> None:
    assert registry.find("shapes") is CARD
    code = "import sys, restrike.models.shapes.card as c; c.CARD.validate(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_card_states_the_size_that_the_scenes_have() -> None:
    assert (CARD.defaults.width, CARD.defaults.height, CARD.defaults.frames) == (
        SIDE_PX,
        SIDE_PX,
        CLIP_FRAMES,
    )


def test_the_weights_weigh_at_most_12_megabytes() -> None:
    assert sum(path.stat().st_size for path in WEIGHTS.iterdir()) <= 12_000_000


def test_a_clip_shows_what_was_asked(shapes: Engine) -> None:
    picture = shapes.generate(CARD, RED_CIRCLE).picture
    assert picture.frames_THWC.shape == (CLIP_FRAMES, SIDE_PX, SIDE_PX, 3)
    reading = read_clips(clip_of(picture))[0]
    assert (reading.colour, reading.shape, reading.motion, reading.background) == (
        "red",
        "circle",
        "left",
        "white",
    )


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(shapes: Engine) -> None:
    first, again, other = (
        shapes.generate(CARD, replace(RED_CIRCLE, seed=seed, steps=3)).picture.frames_THWC
        for seed in (1, 1, 2)
    )
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("frames", [5, 9, 13])
def test_shorter_clips_and_both_precisions_show_what_was_asked(precision: str, frames: int) -> None:
    engine = Engine(device="cpu", precision=precision)
    request = Request(prompt="a large green square on a white background", seed=1, frames=frames)
    reading = read_clips(clip_of(engine.generate(CARD, request).picture))[0]
    assert (reading.colour, reading.shape, reading.background) == ("green", "square", "white")


def test_one_frame_is_a_still(shapes: Engine) -> None:
    picture = shapes.generate(
        CARD, Request(prompt="a green square on a black background", seed=3, frames=1)
    ).picture
    assert picture.frames_THWC.shape == (1, SIDE_PX, SIDE_PX, 3)
    reading = read_clips(clip_of(picture))[0]
    assert (reading.colour, reading.shape, reading.background) == ("green", "square", "black")


def test_words_it_does_not_know_are_named(shapes: Engine) -> None:
    generation = shapes.generate(CARD, replace(RED_CIRCLE, prompt="a red zebra on white", steps=1))
    assert any("'zebra'" in notice for notice in generation.notices)
    assert shapes.generate(CARD, replace(RED_CIRCLE, steps=1)).notices == ()


@pytest.mark.parametrize("sizes", [{"width": 128}, {"frames": 16}, {"frames": 21}])
def test_a_size_it_was_not_trained_for_is_refused(shapes: Engine, sizes: dict[str, int]) -> None:
    with pytest.raises(Refused, match=next(iter(sizes))):
        shapes.generate(CARD, replace(RED_CIRCLE, **sizes))


@pytest.mark.parametrize("solver", ["euler", "unipc", "sde"])
def test_every_solver_ends_in_a_clip(shapes: Engine, solver: str) -> None:
    frames_THWC = shapes.generate(CARD, replace(RED_CIRCLE, solver=solver, steps=4)).picture.frames_THWC
    assert frames_THWC.dtype == np.uint8
    assert frames_THWC.std() > 1


def test_a_checkpoint_without_its_vae_is_named(tmp_path: Path) -> None:
    shutil.copytree(WEIGHTS, tmp_path / "torn")
    (tmp_path / "torn" / "vae.safetensors").unlink()
    card = replace(CARD, location=Folder(tmp_path / "torn"))
    with pytest.raises(NotFound, match=r"vae\.safetensors"):
        Engine(device="cpu").generate(card, replace(RED_CIRCLE, steps=1))


def test_a_config_of_another_model_is_refused(tmp_path: Path) -> None:
    shutil.copytree(WEIGHTS, tmp_path / "other")
    (tmp_path / "other" / "config.json").write_text('{"width": 96}')
    card = replace(CARD, location=Folder(tmp_path / "other"))
    with pytest.raises(Refused, match=r"config\.json is not that of shapes"):
        Engine(device="cpu").generate(card, replace(RED_CIRCLE, steps=1))


def test_interleaved_requests_equal_serial_ones(shapes: Engine) -> None:
    requests = [
        replace(RED_CIRCLE, frames=5, steps=3, solver="unipc"),
        replace(RED_CIRCLE, prompt="a small blue star", frames=1, steps=4, seed=8, items=(0, 2)),
        replace(RED_CIRCLE, frames=9, steps=2, solver="sde", guidance_mode="batched"),
    ]
    report = interleave_gate(shapes, CARD, requests)
    assert report.pictures == 4
    assert report.holds, report.changed


@pytest.mark.slow
def test_the_shipped_weights_keep_their_bars(shapes: Engine) -> None:
    assert score_of_generated(shapes, CARD, TRAINED, 60, seed=5000).all_four >= TRAINED_BAR - 0.03
    assert score_of_generated(shapes, CARD, HELD_OUT, 60, seed=6000).all_four >= HELD_OUT_BAR - 0.03

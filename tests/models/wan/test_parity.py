"""The driven card against diffusers' pipeline on the same weights and noise: equal bit for bit in float32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from restrike.cards.request import Request
from restrike.engine.divergence import Divergence, Tolerance, first_divergence, only, traced
from restrike.engine.engine import Engine
from restrike.engine.events import PreviewReady, StepFinished
from restrike.engine.requests import StreamOptions

from .conftest import Checkpoints, wan_at
from .reference import TAPS, pipeline, run
from .tiny import TinyWan, euler, unipc, with_scheduler

REQUEST = Request(
    prompt="a red  circle &amp;amp; a blue square",
    negative_prompt="black",
    seed=7,
    width=32,
    height=48,
    frames=9,
    steps=3,
    guidance=5.0,
)
TWO_EXPERTS = TinyWan(boundary_ratio=0.9)


def picture_HWC() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8)


def divergence(
    engine: Engine, folder: Path, request: Request, pipe: Any, **asked_of_theirs: Any
) -> Divergence | None:
    """Where the driven card and diffusers part; diffusers may be asked for something else."""
    ours, watched = traced(engine, wan_at(folder), request)
    theirs = run(pipe, replace(ours.arguments, **asked_of_theirs))
    assert torch.isfinite(theirs.latent).all()
    return first_divergence(only(watched[0], TAPS), theirs.trace)


def assert_equal(engine: Engine, folder: Path, request: Request, pipe: Any) -> None:
    found = divergence(engine, folder, request, pipe)
    assert found is None, found


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("guidance", [1.0, 5.0])
@pytest.mark.parametrize("family", ["euler", "unipc"])
def test_text_to_video(
    wan_engine: Engine, text_checkpoint: Path, tmp_path: Path, family: str, guidance: float, steps: int
) -> None:
    scheduler = {"euler": euler, "unipc": unipc}[family]()
    folder = with_scheduler(text_checkpoint, tmp_path / family, scheduler)
    negative = REQUEST.negative_prompt if guidance > 1 else None
    request = replace(REQUEST, steps=steps, guidance=guidance, negative_prompt=negative)
    assert_equal(wan_engine, folder, request, pipeline(folder))


UNIPC_KINDS = [
    *({"solver_order": order, "flow_shift": shift} for order in (1, 2, 3) for shift in (1.0, 8.0)),
    # diffusers' own bh1 has no finite step to sigma 0.
    *({"solver_order": order, "solver_type": "bh1", "final_sigmas_type": "sigma_min"} for order in (1, 2, 3)),
    {"disable_corrector": [0, 2]},
]


@pytest.mark.parametrize("settings", UNIPC_KINDS, ids=str)
def test_kinds_of_unipc(
    wan_engine: Engine, text_checkpoint: Path, tmp_path: Path, settings: dict[str, Any]
) -> None:
    folder = with_scheduler(text_checkpoint, tmp_path / "unipc", unipc(**settings))
    assert_equal(wan_engine, folder, replace(REQUEST, steps=5), pipeline(folder))


@pytest.mark.parametrize(
    "settings", [{"shift": 1.0}, {"use_karras_sigmas": True}, {"shift_terminal": 0.1}], ids=str
)
def test_kinds_of_euler(
    wan_engine: Engine, text_checkpoint: Path, tmp_path: Path, settings: dict[str, Any]
) -> None:
    folder = with_scheduler(text_checkpoint, tmp_path / "euler", euler(**settings))
    assert_equal(wan_engine, folder, REQUEST, pipeline(folder))


def test_a_still(wan_engine: Engine, text_checkpoint: Path) -> None:
    assert_equal(wan_engine, text_checkpoint, replace(REQUEST, frames=1), pipeline(text_checkpoint))


def test_two_experts(wan_engine: Engine, checkpoints: Checkpoints) -> None:
    folder = checkpoints(TWO_EXPERTS)
    request = replace(REQUEST, steps=8, guidance=4.0, guidance_2=3.0)
    assert_equal(wan_engine, folder, request, pipeline(folder))


def test_the_expert_changes_once_at_the_boundary(wan_engine: Engine, checkpoints: Checkpoints) -> None:
    events = wan_engine.stream(wan_at(checkpoints(TWO_EXPERTS)), replace(REQUEST, steps=8))
    steps = [event for event in events if isinstance(event, StepFinished)]
    experts = ["transformer" if step.sigma * 1000 >= 900 else "transformer_2" for step in steps]
    assert [step.component for step in steps] == experts
    assert experts == sorted(experts)
    assert len(set(experts)) == 2


def test_a_timestep_for_each_token(wan_engine: Engine, checkpoints: Checkpoints) -> None:
    folder = checkpoints(TinyWan(expand_timesteps=True))
    assert_equal(wan_engine, folder, REQUEST, pipeline(folder))


@pytest.mark.parametrize("image_tokens", [True, False], ids=["2.1", "2.2"])
def test_image_to_video(wan_engine: Engine, checkpoints: Checkpoints, image_tokens: bool) -> None:
    folder = checkpoints(TinyWan(image=True, image_tokens=image_tokens))
    request = replace(REQUEST, image=picture_HWC())
    assert_equal(wan_engine, folder, request, pipeline(folder, image=True))


def test_image_to_video_with_two_experts(wan_engine: Engine, checkpoints: Checkpoints) -> None:
    folder = checkpoints(TinyWan(image=True, boundary_ratio=0.9))
    request = replace(REQUEST, image=picture_HWC(), steps=5, guidance_2=2.0)
    assert_equal(wan_engine, folder, request, pipeline(folder, image=True))


def test_image_inside_the_latent(wan_engine: Engine, checkpoints: Checkpoints) -> None:
    folder = checkpoints(TinyWan(expand_timesteps=True, image=True))
    request = replace(REQUEST, image=picture_HWC())
    assert_equal(wan_engine, folder, request, pipeline(folder, image=True))


def test_batched_guidance_is_close(wan_engine: Engine, text_checkpoint: Path) -> None:
    card, names = wan_at(text_checkpoint), ("velocity", "latent")
    classic, batched = (
        only(traced(wan_engine, card, replace(REQUEST, guidance_mode=mode))[1][0], names)
        for mode in ("cfg", "batched")
    )
    close = dict.fromkeys(names, Tolerance(absolute=1e-5, relative=1e-4))
    found = first_divergence(batched, classic, close)
    assert found is None, found


@pytest.mark.parametrize(
    ("theirs", "place", "tap"),
    [
        ({"prompt": "a red circle"}, "step 1 of 3", "input.cond.context"),
        ({"negative_prompt": "white"}, "step 1 of 3", "input.uncond.context"),
        ({"seed": 8}, "step 1 of 3", "input.latent"),
        ({"guidance": float(np.nextafter(np.float32(5), np.float32(9)))}, "step 1 of 3", "velocity"),
        ({"steps": 2}, "step 1 of 3", "latent"),
        ({"frames": 5}, "step 1 of 3", "input.latent"),
    ],
    ids=str,
)
def test_what_is_not_the_same_is_seen_and_placed(
    wan_engine: Engine, text_checkpoint: Path, theirs: dict[str, Any], place: str, tap: str
) -> None:
    found = divergence(wan_engine, text_checkpoint, REQUEST, pipeline(text_checkpoint), **theirs)
    assert found is not None
    assert (found.place, found.tap) == (place, tap)


def test_a_decoder_of_its_own_is_seen_in_the_frames(wan_engine: Engine, text_checkpoint: Path) -> None:
    pipe = pipeline(text_checkpoint)
    with torch.no_grad():
        next(pipe.vae.decoder.parameters()).mul_(1.5)
    found = divergence(wan_engine, text_checkpoint, REQUEST, pipe)
    assert found is not None
    assert (found.place, found.tap) == ("result", "frames")


def test_a_preview_is_one_frame(wan_engine: Engine, text_checkpoint: Path) -> None:
    events = wan_engine.stream(wan_at(text_checkpoint), REQUEST, StreamOptions(preview_every=2))
    previews = [event.frames_THWC for event in events if isinstance(event, PreviewReady)]
    assert [preview.shape for preview in previews] == [(1, 48, 32, 3)]

"""The driven card against diffusers' pipeline on the same weights and noise: equal bit for bit in float32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.requests import StreamOptions
from restrike.engine.events import PreviewReady, StepFinished
from restrike.engine.result import Generation

from .conftest import Checkpoints, wan_at
from .reference import pipeline, run
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


def driven(engine: Engine, folder: Path, request: Request) -> Generation:
    return engine.generate(wan_at(folder), request)


def assert_equal(engine: Engine, folder: Path, request: Request, pipe: Any) -> None:
    ours = driven(engine, folder, request)
    theirs = run(pipe, ours.arguments)
    assert torch.isfinite(theirs.latent).all()
    assert ours.picture.latent is not None
    assert torch.equal(ours.picture.latent, theirs.latent)
    assert np.array_equal(ours.picture.frames_THWC, theirs.frames_THWC)


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
    ours = driven(wan_engine, folder, replace(REQUEST, image=picture_HWC()))
    theirs = run(pipeline(folder, image=True), ours.arguments)
    assert ours.picture.latent is not None
    # diffusers hands out its latent with the first frame put back in; ours is the solver's.
    assert torch.equal(ours.picture.latent[:, :, 1:], theirs.latent[:, :, 1:])
    assert np.array_equal(ours.picture.frames_THWC, theirs.frames_THWC)


def test_batched_guidance_is_close(wan_engine: Engine, text_checkpoint: Path) -> None:
    classic = driven(wan_engine, text_checkpoint, REQUEST).picture.latent
    batched = driven(wan_engine, text_checkpoint, replace(REQUEST, guidance_mode="batched")).picture.latent
    assert classic is not None
    torch.testing.assert_close(batched, classic, rtol=1e-4, atol=1e-5)


def test_a_guidance_off_by_one_ulp_is_seen(wan_engine: Engine, text_checkpoint: Path) -> None:
    off = float(np.nextafter(np.float32(REQUEST.guidance or 0), np.float32(9)))
    ours = driven(wan_engine, text_checkpoint, replace(REQUEST, guidance=off))
    theirs = run(pipeline(text_checkpoint), replace(ours.arguments, guidance=5.0))
    assert ours.picture.latent is not None
    assert not torch.equal(ours.picture.latent, theirs.latent)


def test_a_preview_is_one_frame(wan_engine: Engine, text_checkpoint: Path) -> None:
    events = wan_engine.stream(wan_at(text_checkpoint), REQUEST, StreamOptions(preview_every=2))
    previews = [event.frames_THWC for event in events if isinstance(event, PreviewReady)]
    assert [preview.shape for preview in previews] == [(1, 48, 32, 3)]

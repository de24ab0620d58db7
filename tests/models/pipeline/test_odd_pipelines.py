"""Pipelines that are not called like the common ones: pictures in, no prompt, no callback, several loops."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image

from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.events import Event, Failed, PictureFinished, StepFinished, Stopped
from restrike.engine.requests import Cancellation, StreamOptions
from restrike.errors import Crashed, Refused

from .conftest import call_threads, card_at

PICTURE = np.random.default_rng(3).integers(0, 256, (32, 32, 3), dtype=np.uint8)


def renamed(folder: Path, pipeline: str, target: Path) -> ModelCard:
    """The same weights under another pipeline class."""
    shutil.copytree(folder, target)
    index = json.loads((target / "model_index.json").read_text()) | {"_class_name": pipeline}
    (target / "model_index.json").write_text(json.dumps(index))
    return card_at(target)


def steps_of(events: list[Event]) -> list[tuple[int, int]]:
    return [(event.step, event.total) for event in events if isinstance(event, StepFinished)]


@pytest.mark.parametrize(
    ("family", "pipeline"),
    [("sd", "StableDiffusionImg2ImgPipeline"), ("flux", "FluxImg2ImgPipeline")],
)
def test_a_picture_becomes_a_picture(
    family: str,
    pipeline: str,
    folder_of: Callable[[str], Path],
    pipeline_engine: Engine,
    tmp_path: Path,
) -> None:
    card = renamed(folder_of(family), pipeline, tmp_path / "checkpoint")
    request = Request(prompt="a cat", seed=5, steps=4, image=PICTURE, call={"strength": 0.5})
    events = list(pipeline_engine.stream(card, request))
    made = next(event.picture for event in events if isinstance(event, PictureFinished))
    assert steps_of(events) == [(1, 2), (2, 2)], "half the strength is half the steps"
    reference = getattr(diffusers, pipeline).from_pretrained(tmp_path / "checkpoint")
    reference.set_progress_bar_config(disable=True)
    own = reference(
        prompt="a cat",
        image=Image.fromarray(PICTURE),
        strength=0.5,
        num_inference_steps=4,
        generator=torch.Generator().manual_seed(5),
    )
    np.testing.assert_array_equal(made.frames_THWC[0], np.asarray(own.images[0]))
    with pytest.raises(Refused, match=f"{pipeline} refuses the request"):
        pipeline_engine.generate(card, Request(prompt="a cat", seed=5))


def test_a_picture_becomes_a_clip(
    folder_of: Callable[[str], Path], pipeline_engine: Engine, tmp_path: Path
) -> None:
    card = renamed(folder_of("ltx"), "LTXImageToVideoPipeline", tmp_path / "checkpoint")
    request = Request(prompt="a cat", seed=5, steps=2, image=PICTURE, frames=9, width=32, height=32)
    made = pipeline_engine.generate(card, request).picture
    assert (made.frames_THWC.shape, made.fps) == ((9, 32, 32, 3), 25.0)
    other = pipeline_engine.generate(
        card, Request(prompt="a cat", seed=5, steps=2, image=255 - PICTURE, frames=9, width=32, height=32)
    )
    assert not np.array_equal(made.frames_THWC, other.picture.frames_THWC)


@pytest.fixture(scope="module")
def unconditional(tmp_path_factory: pytest.TempPathFactory) -> ModelCard:
    """A DDPM: no prompt, no step callback, steps seen by its progress bar only."""
    folder = tmp_path_factory.mktemp("ddpm")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        unet = diffusers.UNet2DModel(
            sample_size=8,
            block_out_channels=(8, 16),
            layers_per_block=1,
            norm_num_groups=4,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        )
    diffusers.DDPMPipeline(unet.eval(), diffusers.DDPMScheduler()).save_pretrained(folder)
    return card_at(folder)


def test_a_pipeline_without_a_callback_is_stepped_by_its_bar(
    unconditional: ModelCard, pipeline_engine: Engine
) -> None:
    request = Request(prompt="", seed=5, steps=3)
    events = list(pipeline_engine.stream(unconditional, request))
    assert steps_of(events) == [(1, 3), (2, 3), (3, 3)]
    made = next(event.picture for event in events if isinstance(event, PictureFinished))
    loaded = pipeline_engine.load(unconditional).component("pipeline")
    loaded.set_progress_bar_config(disable=True)
    own = loaded(num_inference_steps=3, generator=torch.Generator().manual_seed(5))
    np.testing.assert_array_equal(made.frames_THWC[0], np.asarray(own.images[0]))
    assert made.latent is None


def test_a_pipeline_without_a_callback_is_cancelled_and_interleaved(
    unconditional: ModelCard, pipeline_engine: Engine
) -> None:
    cancellation = Cancellation()
    stream = pipeline_engine.stream(
        unconditional, Request(prompt="", seed=5, steps=5), StreamOptions(cancellation=cancellation)
    )
    events: list[Event] = []
    for event in stream:
        events.append(event)
        if isinstance(event, StepFinished):
            cancellation.cancel()
    assert (steps_of(events), type(events[-1]), call_threads()) == ([(1, 5)], Stopped, [])
    requests = [(unconditional, Request(prompt="", seed=seed, steps=3 + seed)) for seed in range(2)]
    together = pipeline_engine.generate_interleaved(requests)
    for one, request in zip(together, requests, strict=True):
        alone = pipeline_engine.generate(*request).picture
        np.testing.assert_array_equal(one.result().picture.frames_THWC, alone.frames_THWC)


def test_a_prompt_or_several_pictures_of_one_call_are_refused(
    unconditional: ModelCard, pipeline_engine: Engine
) -> None:
    with pytest.raises(Refused, match="DDPMPipeline takes no prompt"):
        pipeline_engine.generate(unconditional, Request(prompt="a cat"))
    with pytest.raises(Refused, match="DDPMPipeline gave 2 pictures where one was asked for"):
        pipeline_engine.generate(unconditional, Request(prompt="", steps=1, call={"batch_size": 2}))


class Twice(diffusers.StableDiffusionPipeline):
    """Denoises in two loops, as a long video is made chunk by chunk."""

    def __call__(self, prompt: str, generator: Any = None, callback_on_step_end: Any = None) -> Any:  # type: ignore[override]
        for steps in (3, 2):
            output = super().__call__(
                prompt,
                num_inference_steps=steps,
                generator=generator,
                callback_on_step_end=callback_on_step_end,
            )
        return output  # pyright: ignore[reportPossiblyUnboundVariable]


class AtOnce(diffusers.StableDiffusionPipeline):
    """Shows nothing of its steps."""

    def __call__(self, prompt: str, generator: Any = None) -> Any:  # type: ignore[override]
        return (np.full((1, 4, 4, 1), 0.5),)


class Fails(diffusers.StableDiffusionPipeline):
    """Fails in its second step."""

    def __call__(self, prompt: str, generator: Any = None, callback_on_step_end: Any = None) -> Any:  # type: ignore[override]
        for index in range(3):
            if index == 1:
                raise ValueError("in the middle")
            callback_on_step_end(self, index, 0, {})


@pytest.fixture
def served_as(
    folder_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[type], ModelCard]:
    """A card of the family `sd` under a class that the installed diffusers is made to know."""

    def card(pipeline: type) -> ModelCard:
        monkeypatch.setattr(diffusers, pipeline.__name__, pipeline, raising=False)
        return renamed(folder_of("sd"), pipeline.__name__, tmp_path / pipeline.__name__)

    return card


def test_every_loop_of_a_call_is_stepped(
    served_as: Callable[[type], ModelCard], pipeline_engine: Engine
) -> None:
    events = list(pipeline_engine.stream(served_as(Twice), Request(prompt="a cat", seed=1)))
    assert steps_of(events) == [(1, 3), (2, 3), (3, 3), (4, 5), (5, 5)]
    assert isinstance(events[-2], PictureFinished)


def test_a_call_that_shows_nothing_is_one_step(
    served_as: Callable[[type], ModelCard], pipeline_engine: Engine
) -> None:
    events = list(pipeline_engine.stream(served_as(AtOnce), Request(prompt="a cat", seed=1)))
    assert steps_of(events) == [(1, 1)]
    made = next(event.picture for event in events if isinstance(event, PictureFinished))
    assert (made.frames_THWC == 128).all()
    assert made.frames_THWC.shape == (1, 4, 4, 3)


def test_what_a_step_raises_is_typed(served_as: Callable[[type], ModelCard], pipeline_engine: Engine) -> None:
    events = list(pipeline_engine.stream(served_as(Fails), Request(prompt="a cat", seed=1)))
    assert isinstance(events[-1], Failed)
    assert isinstance(events[-1].error, Crashed)
    assert events[-1].error.message == "ValueError: in the middle"
    assert isinstance(events[-1].error.__cause__, ValueError)

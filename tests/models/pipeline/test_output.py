"""Everything that published pipelines return becomes frames and sound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from restrike.errors import Crashed, Refused
from restrike.models.pipeline.output import frames_of, sound_of

CLIP_THWC = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), dtype=np.uint8)
UNIT_THWC = CLIP_THWC.astype(np.float32) / 255
STILL_THWC = CLIP_THWC[:1]


def pil(frames_THWC: np.ndarray[Any, Any]) -> list[Image.Image]:
    return [Image.fromarray(frame) for frame in frames_THWC]


def out(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


@pytest.mark.parametrize(
    ("output", "expected_THWC"),
    [
        (out(images=pil(STILL_THWC)), STILL_THWC),
        (out(images=UNIT_THWC[:1]), STILL_THWC),
        (out(images=torch.from_numpy(UNIT_THWC[:1]).permute(0, 3, 1, 2)), STILL_THWC),
        (out(images=pil(STILL_THWC)[0]), STILL_THWC),
        (out(image=pil(STILL_THWC)), STILL_THWC),
        ((pil(STILL_THWC), [False]), STILL_THWC),
        (out(images=[pil(CLIP_THWC)]), CLIP_THWC),
        (out(frames=[pil(CLIP_THWC)]), CLIP_THWC),
        (out(frames=UNIT_THWC[None]), CLIP_THWC),
        (out(frames=[UNIT_THWC]), CLIP_THWC),
        (out(frames=torch.from_numpy(UNIT_THWC)[None].permute(0, 1, 4, 2, 3)), CLIP_THWC),
        (out(frames=torch.from_numpy(UNIT_THWC)[None].permute(0, 1, 4, 2, 3).bfloat16()), None),
        (out(video=CLIP_THWC), CLIP_THWC),
    ],
)
def test_pictures_in_every_form(output: Any, expected_THWC: np.ndarray[Any, Any] | None) -> None:
    frames_THWC = frames_of(output, "SomePipeline")
    assert frames_THWC.dtype == np.uint8
    if expected_THWC is None:
        assert np.abs(frames_THWC.astype(int) - CLIP_THWC).max() <= 1
    else:
        np.testing.assert_array_equal(frames_THWC, expected_THWC)


def test_grey_and_transparent_pictures_become_rgb() -> None:
    grey = frames_of(out(images=UNIT_THWC[:1, ..., :1]), "SomePipeline")
    np.testing.assert_array_equal(grey, np.repeat(STILL_THWC[..., :1], 3, axis=-1))
    clear = [picture.convert("RGBA") for picture in pil(STILL_THWC)]
    np.testing.assert_array_equal(frames_of(out(images=clear), "SomePipeline"), STILL_THWC)


def test_what_is_not_one_picture_is_refused() -> None:
    with pytest.raises(Refused, match="SomePipeline gave 3 pictures"):
        frames_of(out(images=pil(CLIP_THWC)), "SomePipeline")
    with pytest.raises(Refused, match="AudioPipeline makes no pictures; it gives audios"):
        frames_of({"audios": [1.0]}, "AudioPipeline")


@pytest.mark.parametrize("shape", [(1, 2, 8), (2, 8), (8,)])
def test_sound_with_its_rate(shape: tuple[int, ...]) -> None:
    vocoder = out(config=out(output_sampling_rate=24000))
    pipeline = out(components={"vae": out(config=out()), "vocoder": vocoder})
    samples_CN, rate_hz = sound_of(out(audio=torch.full(shape, 2.0, dtype=torch.float16)), pipeline)
    assert samples_CN is not None
    assert (samples_CN.ndim, samples_CN.shape[-1], samples_CN.max(), rate_hz) == (2, 8, 1.0, 24000)
    assert samples_CN.dtype == np.float32
    with pytest.raises(Crashed, match="no component tells its sample rate"):
        sound_of(out(audio=torch.zeros(shape)), out(components={}))
    assert sound_of(out(frames=[]), pipeline) == (None, None)

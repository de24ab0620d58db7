"""What a pipeline returns, as a loop hands it out: frames as THWC uint8, sound as CN float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from restrike.errors import Crashed, Refused

Array = np.ndarray[Any, Any]

STILLS, CLIPS, SOUNDS = ("images", "image"), ("frames", "video"), ("audio", "sound")


def frames_of(output: Any, pipeline: str) -> Array:
    """The one still or clip of a call: THWC, uint8 RGB.

    Raises:
        Refused: the pipeline makes no pictures, or made several where one was asked for.
    """
    field = next((name for name in (*CLIPS, *STILLS) if getattr(output, name, None) is not None), None)
    if field is None and not isinstance(output, tuple | list):
        given = ", ".join(getattr(output, "keys", lambda: [type(output).__name__])())
        raise Refused(f"{pipeline} makes no pictures; it gives {given}")
    value = output[0] if field is None else getattr(output, field)
    frames_THWC = _stacked(value)
    if field in STILLS and not _nested(value) and len(frames_THWC) != 1:
        raise Refused(f"{pipeline} gave {len(frames_THWC)} pictures where one was asked for")
    return frames_THWC


def sound_of(output: Any, pipeline: Any) -> tuple[Array | None, int | None]:
    """The sound of a clip in -1 to 1 and its sample rate; (None, None) for a silent one."""
    value = next((v for name in SOUNDS if (v := getattr(output, name, None)) is not None), None)
    if value is None:
        return None, None
    samples = _array(value[0] if isinstance(value, list) else value).astype(np.float32)
    samples_CN = samples.reshape(-1, samples.shape[-1]) if samples.ndim != 2 else samples
    return np.clip(samples_CN, -1, 1), _sample_rate_hz(pipeline)


def _sample_rate_hz(pipeline: Any) -> int:
    configs = [part.config for part in pipeline.components.values() if hasattr(part, "config")]
    for name in ("output_sampling_rate", "sampling_rate", "sample_rate"):
        for config in configs:
            rate_hz = getattr(config, name, None)
            if isinstance(rate_hz, int):
                return rate_hz
    raise Crashed(f"{type(pipeline).__name__} gave sound and no component tells its sample rate")


def _nested(value: Any) -> bool:
    """Whether it is a batch of lists, of which each is one clip (or one picture in layers)."""
    return isinstance(value, list | tuple) and isinstance(value[0], list | tuple)


def _stacked(value: Any) -> Array:
    if _nested(value):
        value = value[0]
    if isinstance(value, list | tuple):
        parts = [_rgb(part) for part in value]
        return np.concatenate([part if part.ndim == 4 else part[None] for part in parts])
    frames = _rgb(value)
    return frames[0] if frames.ndim == 5 else frames[None] if frames.ndim == 3 else frames


def _rgb(value: Any) -> Array:
    """(...HWC) uint8 RGB of a PIL picture, an array in 0 to 1, or a tensor in 0 to 1 with channels first."""
    if hasattr(value, "convert"):
        return np.asarray(value.convert("RGB"))
    pixels = _array(value)
    if hasattr(value, "detach"):
        pixels = np.moveaxis(pixels, -3, -1)
    if pixels.dtype != np.uint8:
        pixels = (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)
    return np.repeat(pixels, 3, axis=-1) if pixels.shape[-1] == 1 else pixels[..., :3]


def _array(value: Any) -> Array:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return (value.float() if value.is_floating_point() else value).numpy()
    return np.asarray(value)

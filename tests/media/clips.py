"""Clips, provenance and a measure that the media tests share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from restrike.media import Provenance


def disc_clip(frame_count: int = 16, height_px: int = 64, width_px: int = 64) -> NDArray[np.uint8]:
    """A red disc that moves over a smooth gradient: (T, H, W, 3)."""
    y_HW, x_HW = np.mgrid[0:height_px, 0:width_px].astype(np.float64)
    gradient_HWC = np.stack([40 + 100 * x_HW / width_px, 40 + 100 * y_HW / height_px, 90 + 0 * x_HW], axis=-1)
    clip_THWC = np.repeat(gradient_HWC[None], frame_count, axis=0)
    for i, frame_HWC in enumerate(clip_THWC):
        centre_px = width_px * (0.2 + 0.6 * i / max(1, frame_count - 1))
        inside_HW = (x_HW - centre_px) ** 2 + (y_HW - height_px / 2) ** 2 < (0.2 * height_px) ** 2
        frame_HWC[inside_HW] = (200, 40, 50)
    return clip_THWC.round().astype(np.uint8)


def noise_clip(frame_count: int = 3, height_px: int = 24, width_px: int = 32) -> NDArray[np.uint8]:
    """The hardest pixels there are, with one frame repeated: (T, H, W, 3)."""
    clip_THWC = np.random.default_rng(0).integers(
        0, 256, (frame_count, height_px, width_px, 3), dtype=np.uint8
    )
    clip_THWC[-1] = clip_THWC[-2] if frame_count > 1 else clip_THWC[-1]
    return clip_THWC


def provenance_with(prompt: str = "a red circle moving left") -> Provenance:
    return Provenance(
        card="shapes",
        weights="sha256:" + "ab" * 32,
        arguments={"prompt": prompt, "steps": 8, "guidance": 0.1 + 0.2, "size": [64, 64], "negative": None},
        seed=2**53 - 1,
        item=3,
        versions={"restrike": "0.1.0", "torch": "2.13.0", "python": "3.11.9"},
    )


def psnr_db(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    error = np.mean((a.astype(np.float64) - b) ** 2)
    return float("inf") if error == 0 else float(10 * np.log10(255**2 / error))

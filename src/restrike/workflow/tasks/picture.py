"""Tasks on the size and shape of pictures and of every frame of clips; Pillow does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks.frames import (
    check_size,
    each_image,
    fill_of,
    length_of,
    rgba_of,
    size_of,
    still,
    with_frames,
)
from restrike.workflow.tasks.kinds import Colour, Gap, Offset, Px
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    from PIL.Image import Image

Fit = Literal["stretch", "inside", "cover", "pad"]
Filter = Literal["lanczos", "bicubic", "bilinear", "box", "nearest"]
Inset = Annotated[int, Field(ge=0, le=16384)]
Degrees = Annotated[float, Field(ge=-360, le=360)]


@task("picture.resize", epoch="1")
def resize(
    clip: Clip,
    width: Px | None = None,
    height: Px | None = None,
    fit: Fit = "stretch",
    filter: Filter = "lanczos",
    colour: Colour = "black",
) -> Clip:
    """Scale a picture, or every frame of a clip, to a size.

    Args:
        clip: What is scaled.
        width: Of the result, in pixels; left out, it follows from the height.
        height: Of the result, in pixels; left out, it follows from the width.
        fit: When the shape differs: `stretch` it; keep it and stay `inside` the size; `cover` the size and
            cut what is over; or stay inside and `pad` the rest.
        filter: How pixels are weighed; `nearest` keeps hard edges.
        colour: Of the rest that `pad` fills.

    Returns:
        The clip in its new size. The size it has already changes no byte.

    Example:
        task: picture.resize
        arguments: {clip: $step.base, width: 512, height: 288, fit: cover}
    """
    target = _target(size_of(clip), width, height)
    check_size(length_of(clip), *target)
    if target == size_of(clip):
        return clip
    return each_image(clip, lambda picture: _fitted(picture, target, fit, filter, colour))


def _target(size: tuple[int, int], width: int | None, height: int | None) -> tuple[int, int]:
    if width is None and height is None:
        raise Refused("give a width, a height, or both")
    if width is None or height is None:
        scale = (width or 0) / size[0] if width is not None else (height or 0) / size[1]
        return width or max(1, round(size[0] * scale)), height or max(1, round(size[1] * scale))
    return width, height


def _fitted(picture: Image, target: tuple[int, int], fit: str, filter: str, colour: str) -> Image:
    from PIL import Image, ImageOps

    method = Image.Resampling[filter.upper()]
    if fit == "stretch":
        return picture.resize(target, method)
    if fit == "cover":
        return ImageOps.fit(picture, target, method)
    inside = ImageOps.contain(picture, target, method)
    if fit == "inside" or inside.size == target:
        return inside
    canvas = Image.new(inside.mode, target, fill_of(colour, len(inside.getbands())))
    canvas.paste(inside, ((target[0] - inside.width) // 2, (target[1] - inside.height) // 2))
    return canvas


@task("picture.crop", epoch="1")
def crop(clip: Clip, width: Px, height: Px, left: Inset | None = None, top: Inset | None = None) -> Clip:
    """Cut a rectangle out of a picture, or out of every frame of a clip.

    Args:
        clip: What is cut.
        width: Of the rectangle, in pixels.
        height: Of the rectangle, in pixels.
        left: Pixels left of the rectangle; left out, as many as right of it.
        top: Pixels above the rectangle; left out, as many as below it.

    Returns:
        The rectangle. One that reaches beyond the picture is refused.

    Example:
        task: picture.crop
        arguments: {clip: $step.base, left: 8, top: 0, width: 48, height: 48}
    """
    whole_width, whole_height = size_of(clip)
    x = (whole_width - width) // 2 if left is None else left
    y = (whole_height - height) // 2 if top is None else top
    if x < 0 or y < 0 or x + width > whole_width or y + height > whole_height:
        raise Refused(
            f"a rectangle of {width}x{height} at ({x}, {y}) reaches beyond the picture of "
            f"{whole_width}x{whole_height}"
        )
    return with_frames(clip, clip.frames_THWC[:, y : y + height, x : x + width])


@task("picture.pad", epoch="1")
def pad(
    clip: Clip,
    left: Gap = 0,
    top: Gap = 0,
    right: Gap = 0,
    bottom: Gap = 0,
    colour: Colour = "black",
    mode: Literal["colour", "edge", "mirror"] = "colour",
) -> Clip:
    """Add a border to a picture, or to every frame of a clip.

    Args:
        clip: What gets the border.
        left: Pixels added on the left.
        top: Pixels added above.
        right: Pixels added on the right.
        bottom: Pixels added below.
        colour: Of the border; one with opacity needs a picture with opacity.
        mode: A `colour`, or the `edge` pixels drawn out, or the picture's `mirror` image.

    Returns:
        The larger clip.

    Example:
        task: picture.pad
        arguments: {clip: $step.base, left: 16, right: 16, colour: "#202020"}
    """
    import numpy as np

    width, height = size_of(clip)
    check_size(length_of(clip), width + left + right, height + top + bottom)
    margins = ((0, 0), (top, bottom), (left, right), (0, 0))
    if mode != "colour":
        return with_frames(
            clip, np.pad(clip.frames_THWC, margins, mode="edge" if mode == "edge" else "symmetric")
        )
    channels = clip.frames_THWC.shape[-1]
    shape = (length_of(clip), height + top + bottom, width + left + right, channels)
    frames_THWC = np.empty(shape, np.uint8)
    frames_THWC[:] = fill_of(colour, channels)
    frames_THWC[:, top : top + height, left : left + width] = clip.frames_THWC
    return with_frames(clip, frames_THWC)


@task("picture.flip", epoch="1")
def flip(clip: Clip, direction: Literal["horizontal", "vertical"] = "horizontal") -> Clip:
    """Mirror a picture, or every frame of a clip.

    Args:
        clip: What is mirrored.
        direction: `horizontal` swaps left and right, `vertical` swaps top and bottom.

    Returns:
        The mirrored clip.

    Example:
        task: picture.flip
        arguments: {clip: $step.base, direction: vertical}
    """
    frames_THWC = clip.frames_THWC
    return with_frames(clip, frames_THWC[:, :, ::-1] if direction == "horizontal" else frames_THWC[:, ::-1])


@task("picture.rotate", epoch="1")
def rotate(clip: Clip, degrees: Degrees, expand: bool = True, colour: Colour = "black") -> Clip:
    """Turn a picture, or every frame of a clip, counter-clockwise.

    Args:
        clip: What is turned.
        degrees: How far; quarter turns keep every pixel as it is.
        expand: Whether the result grows to hold all corners, or keeps its size and loses them.
        colour: Of the corners that become free.

    Returns:
        The turned clip.

    Example:
        task: picture.rotate
        arguments: {clip: $step.base, degrees: 90}
    """
    import numpy as np
    from PIL import Image

    turns = degrees / 90
    if turns.is_integer() and (expand or turns % 2 == 0):
        return with_frames(clip, np.rot90(clip.frames_THWC, int(turns) % 4, axes=(1, 2)))
    fill = fill_of(colour, clip.frames_THWC.shape[-1])
    method = Image.Resampling.BICUBIC
    return each_image(clip, lambda picture: picture.rotate(degrees, method, expand=expand, fillcolor=fill))


@task("picture.blur", epoch="1")
def blur(clip: Clip, radius: Annotated[float, Field(ge=0, le=512)] = 2.0) -> Clip:
    """Blur a picture, or every frame of a clip.

    Args:
        clip: What is blurred.
        radius: Standard deviation of the Gaussian, in pixels; 0 changes nothing.

    Returns:
        The blurred clip.

    Example:
        task: picture.blur
        arguments: {clip: $step.base, radius: 1.5}
    """
    from PIL import ImageFilter

    return each_image(clip, lambda picture: picture.filter(ImageFilter.GaussianBlur(radius)))


@task("picture.sharpen", epoch="1")
def sharpen(
    clip: Clip,
    amount: Annotated[float, Field(ge=0, le=10)] = 1.0,
    radius: Annotated[float, Field(gt=0, le=64)] = 1.0,
) -> Clip:
    """Sharpen a picture, or every frame of a clip, by an unsharp mask.

    Args:
        clip: What is sharpened.
        amount: How strongly; 0 changes nothing.
        radius: Width of the edges that are sharpened, in pixels.

    Returns:
        The sharper clip.

    Example:
        task: picture.sharpen
        arguments: {clip: $step.base, amount: 0.8}
    """
    from PIL import ImageFilter

    mask = ImageFilter.UnsharpMask(radius=radius, percent=round(amount * 100), threshold=0)
    return each_image(clip, lambda picture: picture.filter(mask))


@task("picture.blank", epoch="1")
def blank(width: Px, height: Px, colour: Colour = "black") -> Clip:
    """Make a picture of one colour.

    Args:
        width: In pixels.
        height: In pixels.
        colour: A name, `#rrggbb`, or `#rrggbbaa` for one that is not opaque.

    Returns:
        The picture; it has opacity when its colour is not opaque.

    Example:
        task: picture.blank
        arguments: {width: 640, height: 360, colour: midnightblue}
    """
    from PIL import Image

    check_size(1, width, height)
    fill = rgba_of(colour)
    return still(
        Image.new("RGB", (width, height), fill[:3])
        if fill[3] == 255
        else Image.new("RGBA", (width, height), fill)
    )


@task("picture.box", epoch="1")
def box(
    width: Px,
    height: Px,
    left: Offset,
    top: Offset,
    box_width: Px,
    box_height: Px,
    shape: Literal["rectangle", "ellipse"] = "rectangle",
    feather: Annotated[float, Field(ge=0, le=512)] = 0.0,
) -> Clip:
    """Make a mask: white inside a box, black outside.

    Args:
        width: Of the mask, in pixels.
        height: Of the mask, in pixels.
        left: Pixels left of the box.
        top: Pixels above the box.
        box_width: Of the box, in pixels.
        box_height: Of the box, in pixels.
        shape: A `rectangle`, or the `ellipse` that fills it.
        feather: How softly the edge runs out, as the standard deviation of a Gaussian in pixels.

    Returns:
        The mask as a picture, for `mask` of picture.compose or a model that fills masks.

    Example:
        task: picture.box
        arguments: {width: 64, height: 64, left: 16, top: 16, box_width: 32, box_height: 32, shape: ellipse}
    """
    from PIL import Image, ImageDraw, ImageFilter

    check_size(1, width, height)
    mask = Image.new("L", (width, height), 0)
    corners = (left, top, left + box_width - 1, top + box_height - 1)
    pen = ImageDraw.Draw(mask)
    (pen.rectangle if shape == "rectangle" else pen.ellipse)(corners, fill=255)
    return still(mask.filter(ImageFilter.GaussianBlur(feather)) if feather else mask)

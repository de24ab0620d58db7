"""Text on pictures: the font that comes with Pillow, or one that the user gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks.frames import pixels, rgba_of, size_of, with_frames
from restrike.workflow.tasks.kinds import Colour, Gap, Offset, Share
from restrike.workflow.tasks.layers import Place, corner_of, lay_on, layer
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont


@dataclass(frozen=True, kw_only=True)
class Pen:
    """How letters are drawn; sizes in pixels."""

    size_px: int
    colour: str
    outline_px: int = 0
    outline_colour: str = "black"
    font: Path | None = None


@task("picture.text", epoch="1")
def write_text(
    clip: Clip,
    text: Annotated[str, Field(max_length=10_000)],
    position: Place = "bottom",
    left: Offset = 0,
    top: Offset = 0,
    size: Annotated[int, Field(ge=4, le=2000)] = 24,
    colour: Colour = "white",
    outline: Annotated[int, Field(ge=0, le=100)] = 0,
    outline_colour: Colour = "black",
    opacity: Share = 1.0,
    margin: Gap = 4,
    font: Path | None = None,
) -> Clip:
    """Write text on a picture, or on every frame of a clip.

    Args:
        clip: What is written on.
        text: One line or several; long ones are not broken.
        position: Where it stands.
        left: Pixels that it is moved right from there; negative is left.
        top: Pixels that it is moved down from there; negative is up.
        size: Of the letters, in pixels.
        colour: Of the letters.
        outline: Width of the line around the letters, in pixels; 0 for none.
        outline_colour: Of that line.
        opacity: 1 covers the picture, 0 shows nothing.
        margin: Pixels kept free at the edges.
        font: A TrueType or OpenType file; left out, the one that comes with Pillow, which has the letters of
            English. Text that the font cannot show is refused.

    Returns:
        The clip with the text on it.

    Example:
        task: picture.text
        arguments: {clip: $step.base, text: Take one, position: top left, size: 12, outline: 1}
    """
    pen = Pen(size_px=size, colour=colour, outline_px=outline, outline_colour=outline_colour, font=font)
    overlay = Clip(frames_THWC=pixels(lettering(text, pen))[None])
    width, height = size_of(clip)
    x, y = corner_of(position, (width - 2 * margin, height - 2 * margin), size_of(overlay))
    letters_HWC, opacity_HW = layer(overlay, None, 0, opacity)
    corner = (x + margin + left, y + margin + top)
    out_THWC = clip.frames_THWC.copy()
    for frame_HWC in out_THWC:
        lay_on(frame_HWC, letters_HWC, opacity_HW, corner, "normal")
    return with_frames(clip, out_THWC)


def lettering(text: str, pen: Pen) -> Image:
    """The letters alone, on nothing: an image with opacity that is just as large as they are."""
    from PIL import Image, ImageDraw

    face = _face(pen)
    _check_letters(text, face)
    outline = pen.outline_px
    ruler = ImageDraw.Draw(Image.new("L", (1, 1)))
    # The height is that of the font's own lines, so that "a" and "A" stand on one base line.
    left, _, right, bottom = ruler.multiline_textbbox((0, 0), text, face, stroke_width=outline)
    lines = text.count("\n") + 1
    ascent, descent = face.getmetrics()
    size = round(right - left) + 1, max(round(bottom), lines * (ascent + descent)) + 2 * outline
    # Letters of the ink's colour on nothing of that colour: no dark seam where they run out.
    red, green, blue, _ = rgba_of(pen.outline_colour if outline else pen.colour)
    picture = Image.new("RGBA", size, (red, green, blue, 0))
    ImageDraw.Draw(picture).multiline_text(
        (-left, outline),
        text,
        fill=rgba_of(pen.colour),
        font=face,
        align="center",
        stroke_width=outline,
        stroke_fill=rgba_of(pen.outline_colour),
    )
    return picture


def _face(pen: Pen) -> FreeTypeFont:
    from PIL import ImageFont

    try:
        # Pillow's basic layout: the richer one depends on a library that may or may not be there.
        if pen.font is not None:
            return ImageFont.truetype(str(pen.font), pen.size_px, layout_engine=ImageFont.Layout.BASIC)
        face = ImageFont.load_default(pen.size_px)
    except OSError as error:
        name = pen.font.name if pen.font is not None else "Pillow's own"
        raise Refused(f"the font {name} cannot be read: {error}") from error
    if not isinstance(face, ImageFont.FreeTypeFont):
        raise Refused("this build of Pillow cannot draw letters (it has no FreeType); install its wheel")
    return face


def _check_letters(text: str, face: FreeTypeFont) -> None:
    """Refuse text that the font cannot show, instead of drawing boxes for it."""

    def drawn(letter: str) -> tuple[tuple[int, int], bytes]:
        mask = face.getmask(letter)
        return mask.size, bytes(mask)  # pyright: ignore[reportArgumentType]  (it is a sequence of bytes)

    missing = drawn("\U0010ffff")  # no letter: the font's own sign for what it lacks
    lacking = [letter for letter in dict.fromkeys(text) if not letter.isspace() and drawn(letter) == missing]
    if lacking:
        raise Refused(f"the font {face.getname()[0]} lacks {' '.join(lacking[:20])}; give another as 'font'")

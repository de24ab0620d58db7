"""Draws generated digits as one labelled sheet, enlarged for the eye. Generates nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from restrike.media import enlarge
from restrike.models.digits.prompts import WORDS

if TYPE_CHECKING:
    from PIL.Image import Image

    from restrike.engine.result import Picture

_SCALE = 5
_CELL_PX = 46
_MARGIN_PX = 16
_LABEL_PX = 84
_PAPER, _INK = (250, 249, 246), (40, 40, 44)


def sheet(pictures: Mapping[int, Sequence[Picture]], columns: int) -> Image:
    """One row a digit, its word on the left, then `columns` pictures."""
    from PIL import Image, ImageDraw, ImageFont

    width_px = 2 * _MARGIN_PX + _LABEL_PX + columns * _CELL_PX
    image = Image.new("RGB", (width_px, 2 * _MARGIN_PX + len(pictures) * _CELL_PX), _PAPER)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=20)
    for row, (digit, made) in enumerate(pictures.items()):
        top_px = _MARGIN_PX + row * _CELL_PX
        draw.text((_MARGIN_PX, top_px + _CELL_PX / 2), WORDS[digit], fill=_INK, font=font, anchor="lm")
        for column, picture in enumerate(made[:columns]):
            tile = Image.fromarray(enlarge(picture.frames_THWC, _SCALE)[0])
            image.paste(tile, (_MARGIN_PX + _LABEL_PX + column * _CELL_PX, top_px + 3))
    return image

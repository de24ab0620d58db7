"""Draws generated clips as one contact sheet: frames from left to right, enlarged for the eye."""

from __future__ import annotations

from typing import TYPE_CHECKING

from restrike.cards.request import Request
from restrike.media import enlarge

if TYPE_CHECKING:
    from PIL.Image import Image

    from restrike.cards.card import ModelCard
    from restrike.engine.engine import Engine

PROMPTS = (
    "a small red heart moving right on a white background",
    "a large yellow star moving up on a black background",
    "a blue ring growing on a grey background",
    "a green triangle moving left quickly on a black background",
    "an orange circle shrinking on a white background",
    "a purple cross moving down on a white background",
    "a large cyan square moving left slowly on a black background",
    "a pink heart resting on a grey background",
)

_FRAMES = (0, 4, 8, 12, 16)
_SCALE = 2
_GAP_PX = 4
_MARGIN_PX = 20
_LABEL_PX = 22
_PAPER, _INK = (250, 249, 246), (40, 40, 44)


def contact_sheet(engine: Engine, card: ModelCard, seed: int = 7) -> Image:
    """The prompts of this module, two to a row, each with five frames of its clip."""
    from PIL import Image, ImageDraw, ImageFont

    tile_px = _SCALE * card.defaults.width
    clip_px = len(_FRAMES) * (tile_px + _GAP_PX) - _GAP_PX
    row_px = tile_px + _LABEL_PX + 12
    rows = (len(PROMPTS) + 1) // 2
    image = Image.new("RGB", (3 * _MARGIN_PX + 2 * clip_px, 2 * _MARGIN_PX + rows * row_px - 12), _PAPER)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=15)
    for index, prompt in enumerate(PROMPTS):
        left_px = _MARGIN_PX + (index % 2) * (clip_px + _MARGIN_PX)
        top_px = _MARGIN_PX + (index // 2) * row_px
        draw.text((left_px, top_px), prompt, fill=_INK, font=font)
        picture = engine.generate(card, Request(prompt=prompt, seed=seed)).picture
        for column, frame_HWC in enumerate(enlarge(picture.frames_THWC[list(_FRAMES)], _SCALE)):
            at_px = (left_px + column * (tile_px + _GAP_PX), top_px + _LABEL_PX)
            image.paste(Image.fromarray(frame_HWC), at_px)
    return image

"""Reads what the embedded models draw back from the pixels, to score it. Nothing here generates."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from restrike.errors import Refused
from restrike.workflow.tasks.frames import size_of
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    from restrike.models.shapes.checker import Reading


def caption_share(clip: Clip, expected: str) -> float:
    """Share of what the caption names that the checker of the card `shapes` reads, from 0 to 1."""
    asked = _asked(expected)
    if not asked:
        raise Refused(f"'{expected}' names no colour, shape, motion or background of the card 'shapes'")
    reading = _read(clip)
    right = [name for name, word in asked.items() if getattr(reading, name) == word]
    return len(right) / len(asked)


def _asked(caption: str) -> dict[str, str]:
    from restrike.models.shapes.scene import BACKGROUNDS, COLOURS, MOTIONS, SHAPES

    words = re.findall(r"[a-z]+", caption.lower())
    grounds = [word for word, after in pairwise(words) if after == "background"]
    known = {"colour": (COLOURS, words), "shape": (SHAPES, words), "motion": (MOTIONS, words)}
    known["background"] = (BACKGROUNDS, grounds)
    found: dict[str, str] = {}
    for name, (vocabulary, among) in known.items():
        named = [word for word in among if word in vocabulary]
        if len(set(named)) > 1:
            raise Refused(f"'{caption}' names several {name}s: {', '.join(named)}")
        if named:
            found[name] = named[0]
    return found


def _read(clip: Clip) -> Reading:
    import torch

    from restrike.models.shapes.checker import read_clips
    from restrike.models.shapes.scene import SIDE_PX

    if size_of(clip) != (SIDE_PX, SIDE_PX):
        raise Refused(
            "the shapes' checker reads {0}x{0} pixels, the clip is {1}x{2}".format(SIDE_PX, *size_of(clip))
        )
    values_TCHW = torch.tensor(clip.frames_THWC[..., :3], dtype=torch.float32).permute(0, 3, 1, 2) / 127.5 - 1
    return read_clips(values_TCHW.permute(1, 0, 2, 3)[None])[0]


def digit_margin(clip: Clip, expected: str) -> float:
    """Lead of the expected digit over the others for a reader of handwritten ones (extra `train`)."""
    import numpy as np
    from PIL import Image

    from restrike.models.digits.card import SIDE_PX
    from restrike.models.digits.prompts import digit_of
    from restrike.workflow.tasks.frames import image

    if not clip.is_still:
        raise Refused("the reader of digits takes one picture; take one with video.frame")
    digit = digit_of(expected)
    small = image(clip.frames_THWC[0]).convert("L").resize((SIDE_PX, SIDE_PX), Image.Resampling.BOX)
    reader, levels = _digit_reader()
    ink = np.asarray(small, np.float64).reshape(1, -1) / 255 * levels
    scores = reader.machine.decision_function(ink)[0]
    return float(scores[digit] - np.delete(scores, digit).max())


@cache
def _digit_reader() -> tuple[Any, int]:
    """Trained in a tenth of a second on the real digits that scikit-learn ships, always to the same."""
    from restrike.workflow.tasks.extras import needed

    needed("sklearn", by="the scorer 'digit'", extra="train")
    from restrike.models.digits.data import LEVELS
    from restrike.models.digits.evaluate import trained_reader

    return trained_reader()[0], LEVELS

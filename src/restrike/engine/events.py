"""What a caller sees of a running request: `Started` first, one terminal event last.

Events are values; holding one changes nothing about the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from restrike.engine.result import Generation, Picture
from restrike.errors import Cancelled, RestrikeError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, kw_only=True)
class Started:
    """The request was understood.

    `steps` counts the denoising steps of all its pictures; 0 when the model itself decides, and then each
    `StepFinished` tells the total of its picture.
    """

    card: str
    seed: int
    items: tuple[int, ...]
    steps: int


@dataclass(frozen=True, kw_only=True)
class Noticed:
    """Something that a person should know and that stops nothing; of picture `item`, or of the request."""

    message: str
    item: int | None = None


@dataclass(frozen=True, kw_only=True)
class StepFinished:
    """Step `step` of `total` (counted from 1) of picture `item` took `seconds`."""

    item: int
    step: int
    total: int
    sigma: float
    component: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class PreviewReady:
    """How picture `item` looks after `step` steps: THWC, uint8."""

    item: int
    step: int
    frames_THWC: np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class PictureFinished:
    """Picture `picture.item` is done."""

    picture: Picture


@dataclass(frozen=True, kw_only=True)
class Succeeded:
    """All pictures are done."""

    generation: Generation


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The request ended with an error; pictures that were finished before stay valid."""

    error: RestrikeError


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """The request was cancelled at a step boundary."""

    error: Cancelled


Event = Started | Noticed | StepFinished | PreviewReady | PictureFinished | Succeeded | Failed | Stopped
TERMINAL = (Succeeded, Failed, Stopped)

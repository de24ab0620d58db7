"""Runs a request to its end on an engine and gives its pictures as values of a workflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.errors import Refused
from restrike.workflow.values import Clip, Sound

if TYPE_CHECKING:
    from restrike.engine.engine import Engine
    from restrike.engine.events import Event
    from restrike.engine.requests import StreamOptions


def streamed(
    engine: Engine,
    card: ModelCard,
    request: Request,
    watch: Callable[[Event], None],
    options: StreamOptions | None = None,
) -> list[Clip]:
    """One clip for each item of the request; raises what made it fail or stop, or what `watch` raises."""
    from restrike.engine.events import Failed, Stopped, Succeeded

    for event in engine.stream(card, request, options):
        watch(event)
        if isinstance(event, Failed | Stopped):
            raise event.error
        if isinstance(event, Succeeded):
            return [_clip(picture) for picture in event.generation.pictures]
    raise Refused("the engine ended without a result")


def _clip(picture: Any) -> Clip:
    sound = None
    if picture.audio_CN is not None and picture.sample_rate_hz is not None:
        sound = Sound(samples_CN=picture.audio_CN, rate_hz=picture.sample_rate_hz)
    still = picture.frames_THWC.shape[0] == 1
    return Clip(frames_THWC=picture.frames_THWC, fps=None if still else picture.fps, sound=sound)

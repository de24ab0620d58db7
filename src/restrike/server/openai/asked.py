"""What OpenAI's clients may ask for, and the generation that it is, in the form that every interface submits.

A field that has no effect is refused by name. What values mean, the card checks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from restrike.cards.card import ModelCard, Task
from restrike.server.api.bodies import GenerationForm, Seed
from restrike.server.openai.failures import BadField

AUTO, CLIP = "auto", "mp4"
_SUFFIXES = {"png": "png", "jpeg": "jpg", "webp": "webp"}
_IMAGES = (Task.TEXT_TO_IMAGE, Task.IMAGE_TO_IMAGE)
_VIDEOS = (Task.TEXT_TO_VIDEO, Task.IMAGE_TO_VIDEO)
# A clip may differ by so much from the seconds asked for: cards make only certain numbers of frames.
_NEAR_S = 0.25


class _Asked(BaseModel):
    """What pictures and videos have in common; null is as good as left out.

    `seed`, `steps`, `guidance` and `negative_prompt` are not OpenAI's.
    """

    model_config = ConfigDict(extra="forbid")

    model: str = Field(description="A card, by its name or the id of its checkpoint.", examples=["digits"])
    prompt: str = Field(examples=["a seven"])
    size: str = Field(default=AUTO, description="WIDTHxHEIGHT in pixels, or auto.", examples=["8x8"])
    seed: Seed | None = Field(default=None, description="Equal seeds give equal pictures.", examples=[3])
    steps: int | None = None
    guidance: float | None = None
    negative_prompt: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


class ImageAsked(_Asked):
    """`images.generate` and `images.edit`."""

    n: int = Field(default=1, ge=1, le=10, description="How many pictures, all different.")
    response_format: Literal["b64_json", "url"] = "b64_json"
    output_format: Literal["png", "jpeg", "webp"] = "png"
    stream: bool = False
    partial_images: int = Field(default=0, ge=0, le=3, description="How many previews a stream shows.")
    background: Literal["auto"] = AUTO
    moderation: Literal["auto"] = AUTO
    quality: Literal["auto"] = AUTO

    def check(self) -> None:
        """Raise BadField for fields that contradict each other."""
        if self.partial_images and not self.stream:
            raise BadField("partial_images", "only a stream shows previews; add stream")
        if self.stream and self.response_format == "url":
            raise BadField("response_format", "a stream carries the pictures themselves; leave it out")


class VideoAsked(_Asked):
    """`videos.create`."""

    seconds: float | None = Field(default=None, gt=0, le=3600)


def image_body(asked: ImageAsked, card: ModelCard, image: str | None = None) -> dict[str, Any]:
    """The generation of pictures; `image` is the reference of an uploaded one. Raises BadField."""
    asked.check()
    _check_makes(card, _IMAGES, "pictures; ask for videos")
    if image is not None and Task.IMAGE_TO_IMAGE not in card.tasks():
        raise BadField("image", f"card '{card.name}' takes no picture")
    still = {"frames": 1} if card.geometry.frames.accepts(1) else {}  # as `restrike generate -o x.png`
    return _body(asked, image, output=_SUFFIXES[asked.output_format], n=asked.n, **still)


def video_body(asked: VideoAsked, card: ModelCard, image: str | None = None) -> dict[str, Any]:
    """The generation of a clip; `image` is the reference of an uploaded picture. Raises BadField."""
    _check_makes(card, _VIDEOS, "videos; ask for images")
    if image is not None and Task.IMAGE_TO_VIDEO not in card.tasks():
        raise BadField("input_reference", f"card '{card.name}' takes no picture")
    if image is None and Task.TEXT_TO_VIDEO not in card.tasks():
        raise BadField("input_reference", f"card '{card.name}' begins with a picture; send one")
    length = {} if asked.seconds is None else {"frames": _frames(asked.seconds, card)}
    return _body(asked, image, output=CLIP, **length)


def seconds_of(body: Mapping[str, Any], card: ModelCard) -> float:
    """How long the clip of a body is."""
    frames = body.get("frames") or card.defaults.frames
    return frames / (body.get("fps") or card.defaults.fps)


def size_of(body: Mapping[str, Any], card: ModelCard) -> str:
    """The size of what a body makes, as OpenAI writes it."""
    return f"{body.get('width') or card.defaults.width}x{body.get('height') or card.defaults.height}"


def _body(asked: _Asked, image: str | None, **more: Any) -> dict[str, Any]:
    """The body that a generation submitted over REST has too."""
    same = {name: getattr(asked, name) for name in ("prompt", "seed", "steps", "guidance", "negative_prompt")}
    return GenerationForm(card=asked.model, image=image, **same, **_size(asked.size), **more).body()


def _size(text: str) -> dict[str, int]:
    if text == AUTO:
        return {}
    found = re.fullmatch(r"([0-9]{1,5})x([0-9]{1,5})", text)
    if found is None:
        raise BadField("size", f"'{text[:40]}' is no size; write WIDTHxHEIGHT in pixels, or auto")
    return {"width": int(found[1]), "height": int(found[2])}


def _frames(seconds: float, card: ModelCard) -> int:
    fps, axis = card.defaults.fps, card.geometry.frames
    frames = axis.nearest(round(seconds * fps))
    if abs(frames / fps - seconds) > _NEAR_S:
        raise BadField(
            "seconds",
            f"card '{card.name}' makes {axis.minimum / fps:.2g} to {axis.maximum / fps:.2g} seconds "
            f"({axis} frames at {fps:g} a second), not {seconds:g}",
        )
    return frames


def _check_makes(card: ModelCard, tasks: tuple[Task, ...], otherwise: str) -> None:
    if not set(tasks) & set(card.tasks()):
        made = ", ".join(card.tasks())
        raise BadField("model", f"card '{card.name}' makes {made}, no {otherwise}")

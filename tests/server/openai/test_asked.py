"""What a request of OpenAI's becomes: the body of a generation, or a refusal that names the field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from restrike.cards import registry
from restrike.cards.card import Axis, ModelCard, Task
from restrike.server.openai.asked import ImageAsked, VideoAsked, image_body, seconds_of, size_of, video_body
from restrike.server.openai.failures import BadField

DIGITS, SHAPES = registry.card("digits"), registry.card("shapes")


def image(**given: Any) -> ImageAsked:
    return ImageAsked.model_validate({"model": "digits", "prompt": "a seven", **given})


def video(**given: Any) -> VideoAsked:
    return VideoAsked.model_validate({"model": "shapes", "prompt": "a red circle", **given})


def from_pictures(card: ModelCard, *tasks: Task) -> ModelCard:
    """A card as it would be if its loop made these."""
    return replace(card, loops=(replace(card.loops[0], tasks=tasks),))


def test_a_picture_is_the_generation_that_rest_takes() -> None:
    body = image_body(image(n=3, size="8x8", seed=5, steps=4), DIGITS)
    assert body == {
        "card": "digits",
        "prompt": "a seven",
        "items": [0, 1, 2],
        "seed": 5,
        "steps": 4,
        "width": 8,
        "height": 8,
        "frames": 1,
        "output": "png",
    }


def test_a_picture_of_a_card_that_makes_clips_is_one_frame() -> None:
    assert [image_body(image(), card)["frames"] for card in (SHAPES, DIGITS)] == [1, 1]
    clips = replace(SHAPES.geometry, frames=Axis(minimum=5, maximum=81))
    assert "frames" not in image_body(image(), replace(SHAPES, geometry=clips))


def test_null_and_auto_are_as_good_as_left_out() -> None:
    assert image_body(image(size="auto", quality="auto", seed=None, style=None), DIGITS) == image_body(
        image(), DIGITS
    )


@pytest.mark.parametrize("field", ["style", "user", "output_compression", "mask", "frame_count", "svg"])
def test_a_field_without_effect_is_refused_by_name(field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        image(**{field: "x"})
    assert refused.value.errors()[0]["loc"] == (field,)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"size": "large"}, "size"),
        ({"size": "8x"}, "size"),
        ({"partial_images": 2}, "partial_images"),
        ({"stream": True, "response_format": "url"}, "response_format"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(BadField) as refused:
        image_body(image(**given), DIGITS)
    assert refused.value.findings[0].path == field


def test_a_card_is_asked_only_for_what_it_makes() -> None:
    with pytest.raises(BadField, match="model: card 'digits' makes text-to-image, no videos"):
        video_body(video(), DIGITS)
    with pytest.raises(BadField, match="image: card 'digits' takes no picture"):
        image_body(image(), DIGITS, "$asset.a.png")
    begins = from_pictures(SHAPES, Task.IMAGE_TO_VIDEO)
    with pytest.raises(BadField, match="begins with a picture"):
        video_body(video(), begins)
    with pytest.raises(BadField, match="no pictures; ask for videos"):
        image_body(image(), begins)
    renamed = replace(DIGITS, name="other")
    assert image_body(image(), renamed) == image_body(image(), DIGITS)  # tasks decide, no name


def test_a_picture_that_comes_along_is_what_the_generation_begins_with() -> None:
    edits = from_pictures(DIGITS, Task.IMAGE_TO_IMAGE)
    assert image_body(image(), edits, "$asset.openai/a.png")["image"] == "$asset.openai/a.png"
    begins = from_pictures(SHAPES, Task.IMAGE_TO_VIDEO)
    assert video_body(video(), begins, "$asset.a.png")["image"] == "$asset.a.png"


def test_seconds_become_the_nearest_number_of_frames_that_the_card_makes() -> None:
    body = video_body(video(seconds="1"), SHAPES)
    assert (body["frames"], body["output"]) == (13, "mp4")
    assert seconds_of(body, SHAPES) == pytest.approx(13 / 12)
    assert size_of(body, SHAPES) == "64x64"
    frames = Axis(minimum=1, maximum=81, step=4, offset=1)
    wide = replace(SHAPES, geometry=replace(SHAPES.geometry, frames=frames))
    assert video_body(video(seconds="4"), wide)["frames"] == 49


def test_a_clip_that_is_too_long_is_refused_and_says_what_is_not() -> None:
    with pytest.raises(BadField, match=r"seconds: card 'shapes' makes 0\.083 to 1\.4 seconds .* not 8"):
        video_body(video(seconds="8"), SHAPES)

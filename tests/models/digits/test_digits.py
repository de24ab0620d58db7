"""The digits card through the engine: it draws what it is asked, again and alike."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from restrike.cards import registry
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.errors import Refused
from restrike.models.digits.card import CARD
from restrike.models.digits.data import load
from restrike.models.digits.prompts import WORDS

from .reading import read_ink, read_picture

EACH = 2


def test_the_card_is_found_valid_and_free_of_torch() -> None:
    assert registry.find("digits") is CARD
    code = "import sys, restrike.models.digits.card as c; c.CARD.validate(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_reader_of_these_tests_reads_real_digits() -> None:
    held_out = load().held_out
    read = [read_ink(ink_HW) for ink_HW in held_out.ink_BCHW[:, 0].numpy()]
    assert np.mean(np.array(read) == held_out.digit_B.numpy()) > 0.85


@pytest.mark.parametrize(
    "sampling",
    [
        {},
        {"guidance_mode": "none"},
        {"guidance_mode": "batched"},
        {"solver": "unipc"},
        {"solver": "sde", "steps": 16},
        {"shift": 2.0},
        {"guidance_interval": (0.2, 0.9)},
        {"guidance_every": 2},
    ],
    ids=lambda sampling: "-".join(map(str, sampling.values())) or "defaults",
)
def test_the_asked_digit_is_drawn(engine: Engine, sampling: dict[str, Any]) -> None:
    pictures = {
        digit: engine.generate(
            "digits", Request(prompt=f"a {word}", seed=0, items=range_of(EACH), **sampling)
        )
        for digit, word in enumerate(WORDS)
    }
    wrong = [
        (digit, read_picture(picture))
        for digit, generation in pictures.items()
        for picture in generation.pictures
        if read_picture(picture) != digit
    ]
    assert len(wrong) <= 1, wrong


def range_of(count: int) -> tuple[int, ...]:
    return tuple(range(count))


def test_a_picture_is_one_native_frame_of_grey(engine: Engine) -> None:
    frames_THWC = engine.generate("digits", Request(prompt="7", seed=1)).picture.frames_THWC
    assert frames_THWC.shape == (1, 8, 8, 3)
    assert frames_THWC.dtype == np.uint8
    assert (frames_THWC == frames_THWC[..., :1]).all()
    assert frames_THWC.min() < 30
    assert frames_THWC.max() > 220


def test_a_seed_decides_the_bytes(engine: Engine) -> None:
    first, again, other = (
        engine.generate("digits", Request(prompt="a seven", seed=seed)).picture.frames_THWC
        for seed in (7, 7, 8)
    )
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_all_ways_to_say_a_digit_give_the_same_picture(engine: Engine) -> None:
    made = {
        engine.generate("digits", Request(prompt=prompt, seed=3)).picture.frames_THWC.tobytes()
        for prompt in ("7", "seven", "a handwritten seven", "the digit 7")
    }
    assert len(made) == 1


def test_a_negative_prompt_steers_away(engine: Engine) -> None:
    plain, steered = (
        engine.generate("digits", Request(prompt="a 3", negative_prompt=negative, seed=3)).picture
        for negative in ("", "an 8")
    )
    assert plain.frames_THWC.tobytes() != steered.frames_THWC.tobytes()
    assert read_picture(steered) == 3


def test_guidance_in_one_batch_equals_two_forwards(engine: Engine) -> None:
    latents = [
        engine.generate("digits", Request(prompt="a 5", seed=2, guidance_mode=mode)).picture.latent
        for mode in ("cfg", "batched")
    ]
    torch.testing.assert_close(latents[0], latents[1], rtol=0, atol=1e-4)


@pytest.mark.parametrize("field", ["prompt", "negative_prompt"])
def test_a_prompt_without_meaning_is_refused(engine: Engine, field: str) -> None:
    request = replace(Request(prompt="a 7"), **{field: "a letter"})
    with pytest.raises(Refused, match="'a letter' names no digit"):
        engine.generate("digits", request)


def test_words_that_say_nothing_are_told(engine: Engine) -> None:
    generation = engine.generate("digits", Request(prompt="a red seven"))
    assert generation.notices == ("card 'digits' knows digits only and leaves out 'red'",)


def test_it_holds_in_bfloat16() -> None:
    engine = Engine(device="cpu", precision="bfloat16")
    generation = engine.generate("digits", Request(prompt="a four", seed=0, items=range_of(4)))
    assert [read_picture(picture) for picture in generation.pictures] == [4] * 4
    assert engine.load("digits").component("transformer").patch_in.weight.dtype == torch.bfloat16

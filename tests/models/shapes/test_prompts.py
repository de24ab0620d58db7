"""Captions and the tokenizer: what a prompt becomes, and which words it does not know."""

from __future__ import annotations

import pytest
import torch

from restrike.models.shapes.captions import caption, training_caption
from restrike.models.shapes.scene import COMBINATIONS, Scene, draw_scenes
from restrike.models.shapes.tokenizer import MAX_TOKENS, tokenize, unknown_words

FULL = Scene(colour="red", shape="heart", motion="left", background="white", size="small", speed="quickly")


def test_a_full_caption_reads_as_a_sentence() -> None:
    assert caption(FULL) == "a small red heart moving left quickly on a white background"


def test_every_caption_is_known_in_full() -> None:
    scenes = draw_scenes(COMBINATIONS, 300, torch.Generator().manual_seed(0))
    for index in range(len(scenes)):
        assert unknown_words(caption(scenes.scene(index))) == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a grey background", "gray"),
        ("a disc", "the circle"),
        ("A Red Circle, moving LEFT!", "red circle moving left"),
        ("a box falling", "a square moving down"),
        ("standing still", "resting"),
    ],
)
def test_synonyms_case_and_punctuation_do_not_matter(one: str, other: str) -> None:
    assert torch.equal(tokenize([one]).token_BL, tokenize([other]).token_BL)


def test_different_prompts_have_different_tokens() -> None:
    assert not torch.equal(tokenize(["a red circle"]).token_BL, tokenize(["a red square"]).token_BL)


def test_the_empty_prompt_still_has_a_token() -> None:
    tokens = tokenize(["", "zebra"])
    assert tokens.mask_BL.sum(dim=1).tolist() == [1, 1]


def test_unknown_words_are_named_once_in_order() -> None:
    assert unknown_words("a red zebra and a blue giraffe with a zebra") == ("zebra", "giraffe")


def test_a_prompt_beyond_the_limit_is_cut() -> None:
    prompt = "red square blue circle " * 20
    assert tokenize([prompt]).token_BL.shape == (1, MAX_TOKENS)
    assert bool(tokenize([prompt]).mask_BL.all())


def test_training_captions_leave_parts_open_but_never_say_what_is_not_so() -> None:
    generator = torch.Generator().manual_seed(0)
    seen = {training_caption(FULL, still=False, generator=generator) for _ in range(400)}
    assert "" in seen
    assert caption(FULL) in seen
    words = set(caption(FULL).split())
    assert all(set(text.split()) <= words for text in seen)


def test_a_still_says_its_motion_seldom() -> None:
    generator = torch.Generator().manual_seed(0)
    said = [("moving" in training_caption(FULL, still=True, generator=generator)) for _ in range(400)]
    assert 0.15 < sum(said) / len(said) < 0.40

"""What a prompt means to the digits card."""

from __future__ import annotations

import pytest

from restrike.errors import Refused
from restrike.models.digits.prompts import WORDS, digit_of, prompt_fault, unknown_words


@pytest.mark.parametrize("digit", range(10))
@pytest.mark.parametrize(
    "pattern",
    ["{}", "a {}", "A {}!", "the digit {}", "a handwritten {}", "the number  {} please", "digit:{}"],
)
def test_one_digit_as_numeral_or_word(pattern: str, digit: int) -> None:
    for name in (str(digit), WORDS[digit], WORDS[digit].upper()):
        prompt = pattern.format(name)
        assert digit_of(prompt) == digit
        assert unknown_words(prompt) == ()


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ("a letter", "no digit"),
        ("someone weighty", "no digit"),
        ("42", r"2 digits \(4, 2\)"),
        ("a seven and a 3", r"2 digits \(7, 3\)"),
        ("two sevens", r"2 digits \(2, 7\)"),
        ("7\n7", r"2 digits \(7, 7\)"),
        ("٧", "no digit"),
    ],
)
def test_no_digit_or_several_are_refused_in_one_line(prompt: str, named: str) -> None:
    with pytest.raises(Refused, match=rf"names {named}; card 'digits' draws one, 0 to 9") as refusal:
        digit_of(prompt)
    assert "\n" not in refusal.value.message


def test_the_fault_of_a_prompt_is_told_in_short() -> None:
    assert prompt_fault("a seven") is None
    assert prompt_fault("a cat") == (
        "names no digit; card 'digits' draws one, 0 to 9, as in 'a seven' or 'the digit 7'"
    )
    assert (prompt_fault("7" * 5000) or "").startswith(f"names 5000 digits ({'7, ' * 10}...); card")


def test_unknown_words_are_told_once_and_in_order() -> None:
    assert unknown_words("a red Seven, a RED one by Goya 1234") == ("red", "goya")

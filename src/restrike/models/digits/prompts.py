"""Prompts to digits over a closed vocabulary. Decides what a prompt means; computes nothing.

A prompt names exactly one digit, as a numeral or a word. Words that the model has never seen are left out
and can be told; a prompt with no digit or with several has no meaning here and is refused.
"""

from __future__ import annotations

import re

from restrike.errors import Refused

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

_DIGIT_OF = {word: digit for digit, word in enumerate(WORDS)} | {"nought": 0}
_DIGIT_OF |= {f"{word}s": digit for digit, word in enumerate(WORDS)} | {"zeroes": 0, "sixes": 6}
_ARTICLES = ("a", "an", "the", "of", "by", "in", "with", "on", "and", "it", "is", "this", "me", "please")
_NOUNS = ("digit", "digits", "number", "numeral", "figure", "picture", "image", "drawing", "hand")
_MANNERS = ("handwritten", "written", "drawn", "single")
_VERBS = ("draw", "write", "paint", "make", "show")
_SILENT = frozenset({*_ARTICLES, *_NOUNS, *_MANNERS, *_VERBS})
"""Words that are true of every picture here, or say nothing of it."""


def digit_of(prompt: str) -> int:
    """The one digit that the prompt names.

    Raises:
        Refused: the prompt names no digit, or several.
    """
    digits = [digit for word in _words(prompt) for digit in _digits_in(word)]
    if len(digits) != 1:
        named = f"{len(digits)} digits ({', '.join(map(str, digits))})" if digits else "no digit"
        raise Refused(
            f"prompt '{' '.join(prompt.split())}' names {named}; card 'digits' draws one, 0 to 9, "
            "as in 'a seven' or 'the digit 7'"
        )
    return digits[0]


def unknown_words(prompt: str) -> tuple[str, ...]:
    """The words that the model has never seen, each once, in their order."""
    words = dict.fromkeys(_words(prompt))
    return tuple(word for word in words if word not in _SILENT and not _digits_in(word))


def _digits_in(word: str) -> list[int]:
    if re.fullmatch(r"[0-9]+", word):
        return [int(numeral) for numeral in word]
    return [_DIGIT_OF[word]] if word in _DIGIT_OF else []


def _words(prompt: str) -> list[str]:
    return re.findall(r"[^\W_]+", prompt.lower())

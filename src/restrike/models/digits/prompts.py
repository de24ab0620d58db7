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
_LISTED = 10
"""So many digits are listed one by one."""


def digit_of(prompt: str) -> int:
    """The one digit that the prompt names.

    Raises:
        Refused: the prompt names no digit, or several.
    """
    fault = prompt_fault(prompt)
    if fault is not None:
        raise Refused(f"prompt '{' '.join(prompt.split())}' {fault}")
    return _digits_of(prompt)[0]


def prompt_fault(prompt: str) -> str | None:
    """What keeps a text from being a prompt, beginning with the verb: it names no digit, or several."""
    digits = _digits_of(prompt)
    if len(digits) == 1:
        return None
    listed = ", ".join(map(str, digits[:_LISTED])) + (", ..." if len(digits) > _LISTED else "")
    named = f"{len(digits)} digits ({listed})" if digits else "no digit"
    return f"names {named}; card 'digits' draws one, 0 to 9, as in 'a seven' or 'the digit 7'"


def unknown_words(prompt: str) -> tuple[str, ...]:
    """The words that the model has never seen, each once, in their order."""
    words = dict.fromkeys(_words(prompt))
    return tuple(word for word in words if word not in _SILENT and not _digits_in(word))


def _digits_of(prompt: str) -> list[int]:
    return [digit for word in _words(prompt) for digit in _digits_in(word)]


def _digits_in(word: str) -> list[int]:
    if re.fullmatch(r"[0-9]+", word):
        return [int(numeral) for numeral in word]
    return [_DIGIT_OF[word]] if word in _DIGIT_OF else []


def _words(prompt: str) -> list[str]:
    return re.findall(r"[^\W_]+", prompt.lower())

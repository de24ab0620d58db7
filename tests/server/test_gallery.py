"""The gallery: what a file is known by."""

from __future__ import annotations

from typing import Any

import pytest

from restrike.server.gallery import prompt_of


def _steps(prompt: Any) -> dict[str, Any]:
    return {"name": "x", "steps": {"made": {"generate": "digits", "arguments": {"prompt": prompt}}}}


@pytest.mark.parametrize(
    ("definition", "action", "prompt"),
    [
        (_steps("a seven"), "made", "a seven"),
        (_steps("$$5 a piece"), "made", "$5 a piece"),
        (_steps("a seven"), "made[three]", "a seven"),
        # What is put in only when it runs is not known from here.
        (_steps("$item"), "made[three]", ""),
        (_steps("a seven"), "other", ""),
        (_steps(["a seven"]), "made", ""),
        ({"endpoint": "digits", "handler": "generate", "payload": {"prompt": "a two"}}, "generate", "a two"),
        ({"endpoint": "badge", "handler": "badge", "payload": {"words": "hi"}}, "badge", ""),
        ({}, "made", ""),
    ],
)
def test_a_file_is_known_by_the_prompt_that_made_it(
    definition: dict[str, Any], action: str, prompt: str
) -> None:
    assert prompt_of(definition, action) == prompt

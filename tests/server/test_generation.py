"""A generation as a workflow: its texts stay texts, its items become a count, nothing is dropped."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from restrike.cards.request import Request
from restrike.cli.options import RequestOptions
from restrike.errors import Refused
from restrike.server.api.bodies import GenerationForm
from restrike.server.generation import workflow_of


def _step(**body: Any) -> dict[str, Any]:
    return workflow_of({"card": "digits", "prompt": "three", **body})["steps"]["picture"]


def test_every_field_has_its_place() -> None:
    step = _step(seed=3, steps=4, items=[0, 1], output="webp", width=None, image="$asset.a.png")

    assert step == {
        "generate": "digits",
        "seed": 3,
        "result": {"container": "webp"},
        "arguments": {"prompt": "three", "steps": 4, "count": 2, "image": "$asset.a.png"},
    }
    assert _step(exact=True)["arguments"]["exact"] is True


def test_no_text_is_taken_for_a_reference() -> None:
    step = _step(prompt="$asset.secret.png", call={"a": ["$5", 5], "b": {"c": "$var.x"}})

    assert step["arguments"]["prompt"] == "$$asset.secret.png"
    assert step["arguments"]["call"] == {"a": ["$$5", 5], "b": {"c": "$$var.x"}}


@pytest.mark.parametrize("items", [[1], [0, 2], [], "0", 3])
def test_pictures_that_are_not_the_first_ones_are_named(items: Any) -> None:
    arguments = _step(items=items)["arguments"]

    assert arguments["items"] == items
    assert "count" not in arguments


def test_a_generation_takes_what_a_request_and_the_command_line_take() -> None:
    request = {part.name for part in fields(Request)}
    form = set(GenerationForm.model_fields)

    # A card and a kind of file are no fields of a request, and `n` is a short word for its items.
    assert form - request == {"card", "output", "n"}
    assert request - form == set()
    words = {part.name: _FORM.get(part.name, (part.name,)) for part in fields(RequestOptions)}
    assert {name for names in words.values() for name in names} == form - {"output"}


# What the command line calls otherwise; `--from` is read there, and is then a request like any other.
_FORM = {
    "negative": ("negative_prompt",),
    "lora": ("adapters",),
    "size": ("width", "height"),
    "count": ("n",),
    "item": ("items",),
    "settings": ("call",),
    "source": (),
}


def test_a_generation_without_a_card_is_refused() -> None:
    with pytest.raises(Refused, match="card"):
        workflow_of({"prompt": "x"})

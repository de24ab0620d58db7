"""A generation as a workflow: its texts stay texts, its items become a count, nothing is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from restrike.errors import Refused
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
    assert workflow_of({"card": "digits", "prompt": "x", "exact": True})["match"] == "exact"


def test_no_text_is_taken_for_a_reference() -> None:
    step = _step(prompt="$asset.secret.png", call={"a": ["$5", 5], "b": {"c": "$var.x"}})

    assert step["arguments"]["prompt"] == "$$asset.secret.png"
    assert step["arguments"]["call"] == {"a": ["$$5", 5], "b": {"c": "$$var.x"}}


@pytest.mark.parametrize("items", [[1], [0, 2], [], "0", 3])
def test_items_that_leave_one_out_are_refused(items: Any) -> None:
    with pytest.raises(Refused, match="items"):
        _step(items=items)


def test_a_generation_without_a_card_is_refused() -> None:
    with pytest.raises(Refused, match="card"):
        workflow_of({"prompt": "x"})

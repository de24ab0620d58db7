from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restrike.workflow.references import (
    Asset,
    Item,
    Member,
    Otherwise,
    Output,
    Result,
    StoredPrompt,
    Variable,
    escaped,
    parse,
)

FORMS = {
    "$var.prompt": Variable("prompt"),
    "$step.base": Result("base"),
    "$step.base.last_frame": Result("base", None, "last_frame"),
    "$step.many[left hand]": Result("many", "left hand"),
    "$step.many[0].fps": Result("many", "0", "fps"),
    "$step.many[*]": Result("many", "*"),
    "$step.many[*].sound": Result("many", "*", "sound"),
    "$item": Item(),
    "$item.speed": Item("speed"),
    "$item.speed | 1.5": Otherwise("speed", 1.5),
    "$item.colour|red": Otherwise("colour", "red"),
    "$item.size | [1, 2]": Otherwise("size", [1, 2]),
    "$item.size | $var.size": Otherwise("size", Variable("size")),
    "$key": Member(),
    "$asset.photos/a cat.png": Asset("photos/a cat.png"),
    "$output.first/latest/base.png": Output("first", "latest", "base.png"),
    "$output.first/0003/clips/a.mp4": Output("first", "0003", "clips/a.mp4"),
    "$prompt.castle": StoredPrompt("castle"),
}
NEITHER = (
    "$",
    "$5",
    "$vars.x",
    "$var.",
    "$var.a b",
    "$step.a[",
    "$step.a[]",
    "$item[0]",
    "$keys",
    "$output.a/b/c",
)


@pytest.mark.parametrize("text", FORMS)
def test_each_form_is_read(text: str) -> None:
    assert parse(text) == FORMS[text]


@pytest.mark.parametrize("text", NEITHER)
def test_what_looks_like_a_reference_and_is_none_says_how_to_write_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="is no reference; write") as caught:
        parse(text)
    assert f"'${text}' for the text itself" in str(caught.value)


def test_a_text_that_holds_a_dollar_elsewhere_is_a_text() -> None:
    assert parse("costs $var.x") == "costs $var.x"


@given(st.text())
def test_every_text_can_be_written(text: str) -> None:
    assert parse(escaped(text)) == text

"""The warm plan: axes, combinations, what handlers make of payloads, and that a card's plan is one too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from restrike.cards import registry
from restrike.cards.card import Task
from restrike.cards.compile import ShapeClass
from restrike.endpoints.builtin import SLOT, endpoint_of
from restrike.endpoints.checking import InvalidEndpoint, check
from restrike.endpoints.payloads import InvalidPayload
from restrike.endpoints.warm import payload_rows, planned_card, warm_rows
from restrike.errors import Crashed, Refused

from .conftest import Ready

VARIED = """
class Varied(BaseModel):
    prompt: str = Field(examples=["a seven"])
    mode: Annotated[Literal["none", "batched"], restrike.Varies({modes})] = "none"
    size: Annotated[int, restrike.Varies(8)] = 8
    steps: int = 3

@restrike.endpoint(slots={{"pipeline": restrike.Slot()}}, compile=restrike.Compiled({options}))
def varied(ctx, payload: Varied):
    made = ctx.slots["pipeline"].generate(payload.prompt, width=payload.size, guidance_mode=payload.mode)
    return ctx.save_image(made)
"""


def varied(modes: str = '"none", "batched"', options: str = "") -> str:
    return VARIED.format(modes=modes, options=options)


def shapes(filled: Any) -> list[str]:
    return [row.shape.name for row in warm_rows(filled.endpoint, filled.cards)]


def test_an_axis_of_two_values_doubles_the_rows(ready: Ready) -> None:
    one, two = ready(varied('"none"')), ready(varied())
    assert (len(payload_rows(one.endpoint)), len(payload_rows(two.endpoint))) == (1, 2)
    assert shapes(one) == ["8x8-none"]
    assert shapes(two) == ["8x8-none", "8x8-batched"]
    assert payload_rows(one.endpoint)[0].name == "varied prompt='a seven', mode='none', size=8, steps=3"


def test_an_excluded_combination_drops_just_its_row(ready: Ready) -> None:
    filled = ready(varied(options='excluding=({"mode": "none", "size": 8}, {"mode": "batched", "size": 9})'))
    assert shapes(filled) == ["8x8-batched"]


def test_without_a_mark_nothing_is_compiled(ready: Ready) -> None:
    filled = ready(varied().replace(", compile=restrike.Compiled()", ""))
    assert payload_rows(filled.endpoint) == warm_rows(filled.endpoint, filled.cards) == ()
    assert planned_card(filled.endpoint, filled.cards) is None


def test_rows_are_for_the_handlers_that_have_their_fields(ready: Ready) -> None:
    filled = ready("""
    class Sized(BaseModel):
        size: int
    @restrike.endpoint(
        slots={"pipeline": restrike.Slot()},
        compile=restrike.Compiled(rows=({"size": 8}, {"prompt": "a one"})),
    )
    class Two:
        def sized(self, ctx, payload: Sized) -> int:
            return ctx.slots["pipeline"].generate("a two", width=payload.size).seed
        def said(self, ctx, payload: Ask) -> int:
            return ctx.slots["pipeline"].generate(payload.prompt, guidance_mode="none").seed
    """)
    assert [row.name for row in payload_rows(filled.endpoint)] == ["said prompt='a one'", "sized size=8"]
    assert shapes(filled) == ["8x8-none", "8x8-batched"]


def test_a_field_without_any_value_is_a_fault(ready: Ready) -> None:
    filled = ready(varied().replace(' = Field(examples=["a seven"])', ""))
    with pytest.raises(InvalidEndpoint, match="payload field 'prompt' has no value to compile for"):
        payload_rows(filled.endpoint)


def test_a_value_that_does_not_fit_its_field_is_named(ready: Ready) -> None:
    filled = ready(varied('"none", "strong"'))
    with pytest.raises(InvalidPayload, match=r"payload\.mode.*not 'strong'"):
        payload_rows(filled.endpoint)


def test_rows_are_short_requests_of_the_declared_classes(ready: Ready) -> None:
    filled = ready(varied('"batched"'))
    (row,) = warm_rows(filled.endpoint, filled.cards)
    card = filled.cards["pipeline"]
    assert card.compile is not None
    assert row.shape in card.compile.shapes
    assert (row.request.steps, row.request.seed, row.request.items) == (4, 0, (0,))


def test_a_call_of_no_declared_class_is_one_of_its_own(ready: Ready) -> None:
    filled = ready(varied('"none"').replace("guidance_mode=payload.mode", 'guidance_mode="cfg"'))
    assert shapes(filled) == ["8x8-cfg"]


def test_a_handler_that_raises_makes_no_plan(ready: Ready) -> None:
    text = varied().replace("    made = ctx", '    raise ValueError("on its first line")\n    made = ctx')
    filled = ready(text)
    with pytest.raises(Crashed, match=r"handler 'varied' .* at served.py:\d+: ValueError: on its first line"):
        warm_rows(filled.endpoint, filled.cards)


def test_a_handler_that_never_ends_is_refused(ready: Ready) -> None:
    filled = ready(varied().replace("    made =", "    while True: made ="))
    with pytest.raises(Refused, match="more than 256 calls"):
        warm_rows(filled.endpoint, filled.cards)


def test_what_a_card_cannot_serve_is_refused_before_anything_is_loaded(ready: Ready) -> None:
    filled = ready(varied().replace("restrike.Varies(8)", "restrike.Varies(8, 9)"))
    with pytest.raises(Refused, match="width 9"):
        warm_rows(filled.endpoint, filled.cards)


def test_the_card_as_the_endpoint_uses_it(ready: Ready) -> None:
    filled = ready(varied('"none"', 'targets=("transformer",)'))
    card = planned_card(filled.endpoint, filled.cards)
    assert card is not None
    assert card.compile is not None
    assert [shape.name for shape in card.compile.shapes] == ["8x8-none"]
    assert [target.component for target in card.compile.targets] == ["transformer"]
    card.validate()
    assert filled.as_compiled().cards["pipeline"] == card
    eager = ready(varied().replace(", compile=restrike.Compiled()", ""))
    assert eager.as_compiled() is eager


@pytest.mark.parametrize("name", ["digits", "shapes"])
def test_a_card_is_an_endpoint_whose_plan_is_what_it_declares(name: str) -> None:
    card = registry.card(name)
    assert card.compile is not None
    endpoint = endpoint_of(card)
    check(endpoint)
    rows = warm_rows(endpoint, {SLOT: card})
    assert tuple(row.shape for row in rows) == card.compile.shapes
    for row in rows:
        assert row.request.prompt == card.example
        assert (row.request.width, row.request.frames) == (row.shape.width, row.shape.frames)


def test_classes_that_differ_in_their_batch_alone_are_both_warmed() -> None:
    card = registry.card("digits")
    assert card.compile is not None
    alone = card.compile.shapes[0]
    both = (alone, replace(alone, batch=(2, 4)))
    card = replace(card, compile=replace(card.compile, shapes=both))
    assert tuple(row.shape for row in warm_rows(endpoint_of(card), {SLOT: card})) == both


def test_a_card_that_starts_from_a_picture_is_warmed_with_one() -> None:
    card = registry.card("digits")
    assert card.compile is not None
    (loop,) = card.loops
    shape = ShapeClass(width=8, height=8, guidance="none", text_tokens=1, from_image=True)
    card = replace(
        card,
        loops=(replace(loop, tasks=(Task.IMAGE_TO_IMAGE,)),),
        compile=replace(card.compile, shapes=(shape,)),
    )
    (row,) = warm_rows(endpoint_of(card), {SLOT: card})
    assert row.shape == shape
    assert isinstance(row.request.image, np.ndarray)


def test_a_card_that_declares_nothing_has_no_plan() -> None:
    card = replace(registry.card("digits"), compile=None)
    assert warm_rows(endpoint_of(card), {SLOT: card}) == ()

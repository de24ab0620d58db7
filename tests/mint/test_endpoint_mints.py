"""An endpoint is minted as a card is: its own plan, the same keys, and its failures before any export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from restrike.cards import registry
from restrike.mint.events import MintPhase
from restrike.mint.plan import warm_plan
from restrike.mint.refusals import Subject
from restrike.mint.report import MintReport
from restrike.mint.request import EndpointUse, read_request, slot_of

from .children import RECIPES, Bench

FILE = """
from __future__ import annotations
from typing import Annotated
from pydantic import BaseModel
import restrike

class Ask(BaseModel):
    prompt: str = "a seven"
    mode: Annotated[str, restrike.Varies("none")] = "none"

@restrike.endpoint(slots={"pipeline": restrike.Slot()}, compile=restrike.Compiled())
def digit(ctx: restrike.Context, payload: Ask):
    return ctx.slots["pipeline"].generate(payload.prompt, guidance_mode=payload.mode).seed
"""


def mint(bench: Bench, text: str, recipe: str = "aot") -> MintReport:
    file = bench.root / "served.py"
    file.write_text(text)
    return bench.here(
        "digits",
        recipe,
        slot=slot_of(registry.card("digits")),
        endpoint=EndpointUse(ref=f"{file}:digit", slots={"pipeline": "digits"}),
        keys_only=True,
    )


def test_it_has_the_rows_of_its_handlers_and_the_keys_of_the_card(bench: Bench) -> None:
    report = mint(bench, FILE)
    assert report.ending.outcome == "ok", report.ending
    assert list(report.keys) == ["transformer 8x8-none"]
    alone = bench.here("digits", slot=slot_of(registry.card("digits")), shapes=("8x8-none",), keys_only=True)
    assert report.keys == alone.keys


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (
            FILE.replace("    return", "    raise ValueError('early')\n    return"),
            "WarmForwardFailed",
            "early",
        ),
        (FILE.replace(", compile=restrike.Compiled()", ""), "NothingDeclared", "declares nothing"),
        (FILE.replace('("none")', "()"), "InvalidEndpoint", "marks 'mode' with no values"),
        (
            FILE.replace("Compiled()", 'Compiled(excluding=({"mode": "none"},))'),
            "EmptyPlan",
            "warm plan is empty",
        ),
        (FILE.replace("return ctx", "return 3 or ctx"), "EmptyPlan", "warm plan is empty"),
        (FILE.replace("a seven", ""), "Refused", "prompt is empty"),
        (FILE.replace("Slot()", 'Slot(tasks=("text-to-video",))'), "Refused", "does not do"),
    ],
)
def test_what_cannot_be_is_refused_alike_on_both_recipes(
    bench: Bench, text: str, kind: str, words: str
) -> None:
    for recipe in RECIPES:
        report = mint(bench, text, recipe)
        assert (report.ending.outcome, report.ending.kind) == ("refused", kind)
        assert words in report.ending.message
        assert report.phase is MintPhase.LOAD
        assert not report.keys


def test_a_request_with_an_endpoint_is_read_back(bench: Bench) -> None:
    used = EndpointUse(ref="served:digit", slots={"pipeline": "digits"})
    request = bench.request("digits", endpoint=used)
    Path(request.scratch).mkdir()
    assert read_request(request.write()) == request


def test_a_size_by_name_is_that_class_and_no_other() -> None:
    card = registry.card("digits")
    assert card.compile is not None
    ranged = replace(card.compile.shapes[0], batch=(1, 4))
    card = replace(card, compile=replace(card.compile, shapes=(ranged,)))
    subject = Subject(card="digits", recipe="aot")
    assert [row.shape for row in warm_plan(card, subject)] == [ranged]
    assert [row.shape for row in warm_plan(card, subject, ("8x8",))] == [replace(ranged, batch=1)]

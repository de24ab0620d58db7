"""Endpoints written to files, as users have them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from restrike.endpoints.discovery import load
from restrike.endpoints.finding import Filled
from restrike.endpoints.places import Place
from restrike.endpoints.slots import fill

HEAD = """
from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from pydantic import BaseModel, Field

import restrike


class Ask(BaseModel):
    prompt: str = "a seven"
    steps: int = Field(default=3, ge=1, le=20)
    solver: str = "euler"

"""
DIGIT = """
@restrike.endpoint(slots={"pipeline": restrike.Slot()})
def digit(ctx: restrike.Context, payload: Ask) -> restrike.Saved:
    \"\"\"A digit.\"\"\"
    model = ctx.slots["pipeline"].using(solver=payload.solver)
    return ctx.save_image(model.generate(payload.prompt, steps=payload.steps))
"""

Written = Callable[..., Place]
Ready = Callable[..., Filled]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes a file of endpoints: the usual imports and payload, then the text."""

    def write(text: str, name: str = "served.py", head: str = HEAD) -> Place:
        path = tmp_path / name
        path.write_text(head + textwrap.dedent(text))
        return Place(file=path, shown=name)

    return write


@pytest.fixture
def ready(written: Written) -> Ready:
    """An endpoint of a text, loaded, its slots filled: `digits` in `pipeline` unless said."""

    def make(text: str = DIGIT, **slots: str) -> Filled:
        endpoint = load(written(text)).meant()
        given = slots or dict.fromkeys(endpoint.slots, "digits")
        return Filled(endpoint=endpoint, cards=fill(endpoint, given))

    return make

"""Types of arguments that many tasks share, with their limits. Importing it loads no library."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field


def _known_colour(name: str) -> str:
    from PIL import ImageColor

    try:
        ImageColor.getcolor(name, "RGBA")
    except ValueError:
        raise ValueError(
            f"'{name}' is no colour; write a name such as red, '#ff8800', or 'hsl(30, 100%, 50%)'"
        ) from None
    return name


Px = Annotated[int, Field(ge=1, le=16384)]
Offset = Annotated[int, Field(ge=-16384, le=16384)]
Gap = Annotated[int, Field(ge=0, le=4096)]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=3600)]
Duration = Annotated[float, Field(gt=0, le=3600)]
Fps = Annotated[float, Field(ge=0.1, le=1000)]
Decibels = Annotated[float, Field(ge=-120, le=60)]
RateHz = Annotated[int, Field(ge=8000, le=192000)]
Colour = Annotated[str, AfterValidator(_known_colour), "a colour"]

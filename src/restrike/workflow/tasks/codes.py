"""QR codes as pictures, made by segno."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks.extras import needed
from restrike.workflow.tasks.frames import check_size, fill_of
from restrike.workflow.tasks.kinds import Colour
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip


@task("picture.qr", epoch="1")
def qr(
    text: Annotated[str, Field(min_length=1, max_length=7089)],
    scale: Annotated[int, Field(ge=1, le=100)] = 8,
    border: Annotated[int, Field(ge=0, le=100)] = 4,
    correction: Literal["low", "medium", "quartile", "high"] = "medium",
    dark: Colour = "black",
    light: Colour = "white",
) -> Clip:
    """Make a QR code.

    Args:
        text: What it says, mostly an address.
        scale: Side of a module, in pixels.
        border: Quiet zone around it, in modules; readers expect 4.
        correction: How much may be covered and still be read: about 7, 15, 25 or 30 percent.
        dark: Colour of its modules.
        light: Colour of the ground.

    Returns:
        The picture, opaque.

    Example:
        task: picture.qr
        arguments: {text: "https://example.org", scale: 6, correction: high}
    """
    import numpy as np

    segno = needed("segno", by="picture.qr")
    try:
        code = segno.make_qr(text, error=correction[0], boost_error=False)
    except segno.DataOverflowError as error:
        raise Refused(f"a QR code with {correction} correction cannot hold {len(text)} characters") from error
    modules_HW = np.pad(np.array(code.matrix, np.uint8), border).repeat(scale, axis=0).repeat(scale, axis=1)
    check_size(1, *modules_HW.shape)
    colours = np.array([fill_of(light, 3), fill_of(dark, 3)], np.uint8)
    return Clip(frames_THWC=colours[modules_HW][None])

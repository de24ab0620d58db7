"""Writes a finished picture as the file that the job has for it, and says what it wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from restrike.cli.asking import LOSSLESS, SCALE
from restrike.cli.job import Job
from restrike.cli.targets import scale_for
from restrike.media import enlarge, write

if TYPE_CHECKING:
    from restrike.engine.result import Picture


def write_picture(job: Job, picture: Picture) -> dict[str, Any]:
    """Write it, whole or not at all; returns the facts of the file."""
    target = job.targets[picture.item]
    _, height_px, width_px, _ = picture.frames_THWC.shape
    scale = job.scale or scale_for(width_px, height_px)
    made = {SCALE: scale} if scale > 1 else {}  # as Python leaves it out, so that both write the same bytes
    made |= {LOSSLESS: True} if getattr(target.container, "lossless", False) else {}
    provenance = replace(picture.provenance, arguments={**picture.provenance.arguments, **made})
    write(
        target.path,
        enlarge(picture.frames_THWC, scale),
        fps=picture.fps,
        options=target.container,
        provenance=provenance,
        audio=picture.audio,
    )
    return {
        "path": str(target.path),
        "item": picture.item,
        "width": width_px * scale,
        "height": height_px * scale,
        "frames": len(picture.frames_THWC),
        "fps": picture.fps,
        "scale": scale,
    }

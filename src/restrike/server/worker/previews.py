"""Keeps a preview as a small file of the data folder. It shows what a job makes and is no result of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from restrike.server.place import Place

if TYPE_CHECKING:
    import numpy as np

LARGEST_PX = 512


class Previews:
    """The previews of one job, numbered."""

    def __init__(self, place: Place, job: str) -> None:
        self._place, self._job = place, job
        folder = place.previews / job
        self._count = len(list(folder.glob("*.webp"))) if folder.is_dir() else 0

    def keep(self, frames_THWC: np.ndarray[Any, Any]) -> str:
        """Write the middle frame as WebP, at most `LARGEST_PX` wide and high; returns its name."""
        from PIL import Image

        name = f"{self._job}/{self._count:06d}.webp"
        self._count += 1
        picture = Image.fromarray(frames_THWC[len(frames_THWC) // 2])
        picture.thumbnail((LARGEST_PX, LARGEST_PX))
        target = self._place.preview(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        _write(picture, target)
        return name


def _write(picture: Any, target: Path) -> None:
    """Whole or not at all; it need not survive a power cut."""
    partial = target.with_suffix(".part")
    picture.save(partial, format="webp", quality=80)
    partial.replace(target)

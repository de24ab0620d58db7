"""The files of one request: pictures and clips, whole and with their provenance, in a folder from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from restrike.errors import Refused
from restrike.keys import file_digest

if TYPE_CHECKING:
    import numpy as np

    from restrike.media import Audio, Provenance


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A file that a handler wrote: its name, where it lies, its SHA-256; sizes in pixels and frames."""

    name: str
    path: str
    sha256: str
    width: int
    height: int
    frames: int


@dataclass(frozen=True, kw_only=True)
class Clip:
    """What is to be written: `frames_THWC` is uint8 RGB, one frame for a still."""

    frames_THWC: np.ndarray[Any, Any]
    fps: float
    provenance: Provenance
    audio: Audio | None = None


@dataclass(kw_only=True)
class Files:
    """Where the files of a request go, and those that are there; `folder` is None when nobody said where.

    `told` says where a file lies, in the words of whoever asked for it.
    """

    folder: Path | None
    write: Callable[[Path, Clip], str]
    told: Callable[[Path], str] = str
    saved: list[Saved] = field(default_factory=list)

    def add(self, name: str, clip: Clip) -> Saved:
        """Write one; raises Refused for a name that is taken or leads elsewhere, or without a folder."""
        if self.folder is None:
            raise Refused(f"'{name}' cannot be saved: no folder for files was given")
        is_plain = name.isprintable() and "\\" not in name and not name.startswith(".")
        if not is_plain or Path(name).name != name:
            raise Refused(f"'{name}' is not the name of a file; leave folders out")
        if any(each.name == name for each in self.saved):
            raise Refused(f"'{name}' is saved twice in one request; give each file its own name")
        path = self.folder / name
        digest = self.write(path, clip)
        frames, height_px, width_px, _ = clip.frames_THWC.shape
        made = Saved(
            name=name,
            path=self.told(path),
            sha256=digest,
            width=width_px,
            height=height_px,
            frames=frames,
        )
        self.saved.append(made)
        return made


def write_clip(path: Path, clip: Clip) -> str:
    """Write a file as its suffix says; its SHA-256. Raises as `media.write`."""
    from restrike.media import write

    write(path, clip.frames_THWC, fps=clip.fps, audio=clip.audio, provenance=clip.provenance)
    return file_digest(path).hex


def check_clip(path: Path, clip: Clip) -> str:
    """Refuse what `write_clip` would refuse, and write nothing."""
    from restrike.media import check_target

    frames, height_px, width_px, _ = clip.frames_THWC.shape
    check_target(
        path,
        frame_count=frames,
        height_px=height_px,
        width_px=width_px,
        fps=clip.fps,
        has_audio=clip.audio is not None,
    )
    return ""

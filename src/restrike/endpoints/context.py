"""What a handler is given beside its payload. All of one request lives here, and nothing of another."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from restrike.endpoints.saving import Clip, Files, Saved
from restrike.endpoints.slots import SlotModel
from restrike.errors import Refused

if TYPE_CHECKING:
    import numpy as np
    import torch

    from restrike.engine.result import Generation, Picture
    from restrike.media import Provenance

    Pictured = Generation | Picture | np.ndarray[Any, Any]

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, kw_only=True)
class Progressed:
    """How far a handler is, as a fraction that never falls, and what it says of it."""

    fraction: float
    note: str


class Context:
    """One request. Of its attributes a handler reads `slots` (a model for each declared slot) and `seed`."""

    def __init__(
        self,
        *,
        slots: Mapping[str, SlotModel],
        seed: int,
        files: Files,
        check: Callable[[], None],
        watch: Callable[[object], None],
        provenance: Callable[[], Provenance],
    ) -> None:
        self.slots: Mapping[str, SlotModel] = MappingProxyType(dict(slots))
        self.seed = seed
        self.notices: list[str] = []
        self._files, self._check, self._watch = files, check, watch
        self._provenance = provenance
        self._fraction = 0.0

    @cached_property
    def generator(self) -> torch.Generator:
        """Random numbers that the seed decides, on the CPU, so that every machine draws the same."""
        import torch

        return torch.Generator().manual_seed(self.seed)

    def check(self) -> None:
        """Raise Cancelled once the request was cancelled; for long work of a handler's own."""
        self._check()

    def progress(self, fraction: float, note: str = "") -> None:
        """Tell how far it is, from 0 to 1; raises Cancelled as `check`, Refused for what is no number."""
        self.check()
        if math.isnan(fraction):
            raise Refused("progress is no number; give how far it is, from 0 to 1")
        self._fraction = max(self._fraction, min(1.0, float(fraction)))
        self._watch(Progressed(fraction=self._fraction, note=note))

    def notice(self, message: str) -> None:
        """Tell something that a person should know and that stops nothing; it is part of the answer."""
        if message not in self.notices:
            self.notices.append(message)

    def clamp(self, name: str, value: Number, least: Number, most: Number) -> Number:
        """The value within its limits; a notice tells when it was not."""
        within = max(least, min(most, value))
        if within != value:
            self.notice(f"{name} {value} is not within {least} to {most}; {within} was used")
        return within

    def save_image(self, picture: Pictured, name: str = "image.png") -> Saved:
        """Write a still: the first picture of a generation, a picture, or pixels (HWC, uint8).

        Raises:
            Refused: it has several frames, the name is no still's, or there is no folder for files.
        """
        clip = self._clip(picture, fps=1.0)
        if len(clip.frames_THWC) != 1:
            raise Refused(f"'{name}' cannot be saved: {len(clip.frames_THWC)} frames; use save_video")
        return self._save(clip, name)

    def save_video(self, picture: Pictured, name: str = "video.mp4", *, fps: float | None = None) -> Saved:
        """Write a clip: the first one of a generation, a picture, or frames (THWC, uint8) at `fps`.

        Raises:
            Refused: frames without `fps`, a name that is no clip's, or no folder for files.
        """
        if fps is None and not hasattr(picture, "provenance") and not hasattr(picture, "picture"):
            raise Refused(f"'{name}' cannot be saved: frames need fps")
        return self._save(self._clip(picture, fps), name)

    def _save(self, clip: Clip, name: str) -> Saved:
        self.check()
        return self._files.add(name, clip)

    def _clip(self, given: Any, fps: float | None) -> Clip:
        from restrike.engine.result import Generation, Picture

        picture = given.picture if isinstance(given, Generation) else given
        if isinstance(picture, Picture):
            return Clip(
                frames_THWC=picture.frames_THWC,
                fps=fps if fps and len(picture.frames_THWC) > 1 else picture.fps,
                provenance=picture.provenance,
                audio=picture.audio,
            )
        frames_THWC = picture[None] if getattr(picture, "ndim", 0) == 3 else picture
        return Clip(frames_THWC=frames_THWC, fps=fps or 1.0, provenance=self._provenance())

"""What a request yields: pictures (stills or clips) that carry where they came from.

A result owns its arrays; nothing in it points into the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from restrike.cards.request import Arguments
from restrike.engine.capture.counters import CaptureReport
from restrike.engine.compiled.counters import CompiledReport
from restrike.engine.counts import Executed
from restrike.media.provenance import Provenance

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from restrike.media import Audio


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One still or clip: `frames_THWC` is uint8 RGB, one frame for a still.

    `latent` is the final latent; `log_probs` has one 0-d tensor a stochastic step. `audio_CN` is float32 in
    -1 to 1 at `sample_rate_hz`.
    """

    item: int
    frames_THWC: np.ndarray[Any, Any]
    fps: float
    provenance: Provenance
    latent: Tensor | None = None
    log_probs: tuple[Tensor, ...] = ()
    audio_CN: np.ndarray[Any, Any] | None = None
    sample_rate_hz: int | None = None

    def save(self, path: str | Path) -> Path:
        """Write it as the kind that the suffix names, with its provenance; atomic.

        Raises:
            Refused: unknown suffix, a still kind for several frames, or a path that cannot be written.
        """
        from restrike.media import write

        target = Path(path)
        write(target, self.frames_THWC, fps=self.fps, audio=self.audio, provenance=self.provenance)
        return target

    @property
    def audio(self) -> Audio | None:
        """Its sound as files hold it, None when it is silent."""
        from restrike.media import Audio

        if self.audio_CN is None or self.sample_rate_hz is None:
            return None
        return Audio(samples_CN=self.audio_CN, rate_hz=self.sample_rate_hz)


@dataclass(frozen=True, kw_only=True)
class Generation:
    """All pictures of one request, in the order of its items.

    `capture` tells how its steps were executed, `compiled` what answered the forwards in them.
    """

    card: str
    arguments: Arguments
    pictures: tuple[Picture, ...]
    seconds: float
    capture: CaptureReport
    compiled: CompiledReport
    notices: tuple[str, ...] = ()

    @property
    def executed(self) -> Executed:
        """Both of these."""
        return Executed(capture=self.capture, compiled=self.compiled)

    @property
    def seed(self) -> int:
        """The seed, drawn or given; with a picture's item it decides all noise."""
        return self.arguments.seed

    @property
    def picture(self) -> Picture:
        """The first picture."""
        return self.pictures[0]

    def save(self, path: str | Path) -> Path:
        """Write the first picture; see `Picture.save`."""
        return self.picture.save(path)

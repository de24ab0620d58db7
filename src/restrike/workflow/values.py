"""The values that steps hand to each other, and their parts that a reference can name.

Values are never changed after they are made; arrays that come out of the store are read-only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from restrike.errors import Refused
from restrike.keys import Record, Unkeyable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Sound:
    """`samples_CN` float32 in -1 to 1, one or two channels, at `rate_hz`."""

    key_name: ClassVar[str] = "sound"

    samples_CN: NDArray[np.float32]
    rate_hz: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.samples_CN.shape[1] / self.rate_hz


@dataclass(frozen=True, kw_only=True, eq=False)
class Clip:
    """A still (one frame) or a video: `frames_THWC` uint8, three channels, or four with transparency."""

    key_name: ClassVar[str] = "clip"

    frames_THWC: NDArray[np.uint8]
    fps: float | None = None
    sound: Sound | None = None

    @property
    def is_still(self) -> bool:
        """Whether it has one frame."""
        return self.frames_THWC.shape[0] == 1

    def frame(self, index: int) -> Clip:
        """One frame as a still; negative counts from the end."""
        at = range(self.frames_THWC.shape[0])[index]
        return Clip(frames_THWC=self.frames_THWC[at : at + 1])


_CLIP_FIELDS: Mapping[str, Callable[[Clip], Any]] = {
    "first_frame": lambda clip: clip.frame(0),
    "last_frame": lambda clip: clip.frame(-1),
    "sound": lambda clip: clip.sound,
    "fps": lambda clip: clip.fps,
    "frames": lambda clip: int(clip.frames_THWC.shape[0]),
    "width": lambda clip: int(clip.frames_THWC.shape[2]),
    "height": lambda clip: int(clip.frames_THWC.shape[1]),
}
CLIP_FIELDS = tuple(_CLIP_FIELDS)


_DATACLASSES: Mapping[str, type[Any]] = {kind.key_name: kind for kind in (Clip, Sound)}


def field_of(value: Any, name: str, where: str) -> Any:
    """A named part of a value; raises Refused, saying which parts exist, when it has no such part."""
    if isinstance(value, Clip) and name in _CLIP_FIELDS:
        return _CLIP_FIELDS[name](value)
    if isinstance(value, Mapping) and name in value:
        return value[name]
    exists = CLIP_FIELDS if isinstance(value, Clip) else tuple(value) if isinstance(value, Mapping) else ()
    listed = f"it has {', '.join(exists)}" if exists else f"a {type(value).__name__} has no parts"
    raise Refused(f"{where}: no part '{name}'; {listed}")


def ordered(value: Any) -> Any:
    """A value with all mappings sorted: their order is in no key, so no operation may see any other.

    Numbers of numpy's become Python's, as which they are read, written and compared.
    """
    if isinstance(value, Mapping):
        return {name: ordered(value[name]) for name in sorted(value, key=str)}
    if type(value) in (list, tuple):
        return type(value)(ordered(entry) for entry in value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.bool_ | numpy.integer | numpy.floating):
        return value.item()
    return value


def check_revivable(value: Any) -> None:
    """Raise Unkeyable for a value of which `revived` could not make again what it is."""
    if isinstance(value, Mapping):
        for entry in value.values():
            check_revivable(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            check_revivable(entry)
    elif is_dataclass(value) and type(value) not in _DATACLASSES.values():
        raise Unkeyable(f"a {type(value).__qualname__} would not come back as one; give a table")


def revived(value: Any) -> Any:
    """A value as the store returns it, with its records made dataclasses again and its mappings sorted."""
    if isinstance(value, Record):
        fields = {name: revived(entry) for name, entry in value.fields.items()}
        return _DATACLASSES[value.name](**fields)
    if isinstance(value, dict):
        return {name: revived(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return type(value)(revived(entry) for entry in value)
    return value

"""Tasks that the tests of runs allow by file. Some leave a line in a log, so that calls can be counted."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip


def note(log: str, line: str) -> None:
    with Path(log).open("a") as file:
        file.write(f"{line}\n")


@task("own.shout", epoch="1")
def shout(text: str, log: str) -> str:
    """Capitals."""
    note(log, "shout")
    return text.upper()


@task("own.slow", epoch="1")
def slow(text: str, log: str, gate: str) -> str:
    """The text, once the file `gate` exists; the line in the log is the process."""
    note(log, str(os.getpid()))
    while not Path(gate).exists():
        time.sleep(0.02)
    return text


@task("own.counted", epoch="1", side_effects=True)
def counted(log: str) -> int:
    """How often it was called."""
    note(log, "counted")
    return len(Path(log).read_text().splitlines())


@task("own.random", epoch="1", draws=True)
def random(seed: int, log: str) -> int:
    """A number of the seed."""
    note(log, "random")
    return seed * 2 + 1


@task("own.spoil", epoch="1")
def spoil(numbers: Any) -> int:
    """Changes what it was given."""
    numbers.append(0)
    return len(numbers)


@task("own.list", epoch="1")
def listed(count: int) -> list[int]:
    """Numbers."""
    return list(range(count))


@task("own.nan", epoch="1")
def nan() -> float:
    """What is not equal to itself."""
    return math.nan


@task("own.fails", epoch="1")
def fails(text: str, unless: str) -> str:
    """Fails until the file `unless` exists."""
    if not Path(unless).exists():
        raise ValueError("not yet")
    return text


@task("own.clock", epoch="1")
def clock() -> float:
    """Another value each time, though it declares nothing."""
    return time.time()


@task("own.first", epoch="1")
def first(text: str) -> str:
    """The first letter: equal for texts that begin alike."""
    return text[:1]


@task("own.show", epoch="1")
def show(value) -> str:  # type: ignore[no-untyped-def]  # anything, as it is
    """Any value as text."""
    return repr(value)


@task("own.stain", epoch="1")
def stain(clip: Clip) -> Clip:
    """Paints on the picture that it was given."""
    clip.frames_THWC[:] = 0
    return Clip(frames_THWC=clip.frames_THWC + 1)


@task("own.keep", epoch="1")
def keep(clip: Clip, note=None) -> Clip:  # type: ignore[no-untyped-def]
    """The picture itself."""
    return clip


@task("own.keep_any", epoch="1")
def keep_any(value: Any) -> Any:
    """The value itself."""
    return value


@task("own.table", epoch="1")
def table() -> dict[str, int]:
    """A table whose names are in no order."""
    return {"long": 1, "b": 2, "a": 3}


@task("own.size", epoch="1")
def size(values: Any) -> int:
    """How many there are."""
    return len(values)


@task("own.write", epoch="1")
def write(path: str, text: str) -> str:
    """Writes a file behind everyone's back."""
    Path(path).write_text(text)
    return text


class Named(NamedTuple):
    """A tuple with names, which the store does not know."""

    x: int


@dataclass(frozen=True)
class Own:
    """A dataclass that can be keyed, and that the store does not know."""

    key_name: ClassVar[str] = "own"

    x: int


@task("own.odd", epoch="1")
def odd(what: str) -> Any:
    """A value that the store would give back as something else."""
    import numpy as np

    return {"numpy": [np.float64(0.5), np.bool_(True)], "named": Named(1), "own": Own(1)}[what]


@task("own.kind", epoch="1")
def kind(value: Any, note: int) -> str:
    """What kind of value it is."""
    return f"{type(value).__name__} {value!r}"


@task("own.four", epoch="1", side_effects=True)
def four() -> int:
    """Four, as a task whose result is never kept."""
    return 4


@task("own.pixels", epoch="1")
def pixels(seed: int) -> Any:
    """Some pixels."""
    import numpy as np

    return np.random.default_rng(seed).integers(0, 256, 1000, np.uint8)

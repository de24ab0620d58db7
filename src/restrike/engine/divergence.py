"""Where two runs part: the earliest tap, in the order of the run, whose values differ by more than allowed.

A tap is a tensor seen at a named place. This module looks at what was recorded; it runs no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.requests import StreamOptions
from restrike.engine.result import Generation, Picture
from restrike.loops.contract import StepPlan, Tensors

CAUSES = ("velocity", "latent", "log_prob")
"""The outputs of a step in the order in which one makes the next; all others come after."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far a tap may differ: |first - second| <= absolute + relative * |second|.

    Both zero, the default, asks for equal bits: -0.0 is then not 0.0. Otherwise a NaN equals a NaN in the
    same place, an infinity the same infinity, and neither equals anything else, however large the tolerance.
    """

    absolute: float = 0.0
    relative: float = 0.0

    def __str__(self) -> str:
        if not (self.absolute or self.relative):
            return "0"
        parts = (f"{self.absolute:.3g}", f"{self.relative:.3g} of the value")
        return " + ".join(
            part for part, size in zip(parts, (self.absolute, self.relative), strict=True) if size
        )


EXACT = Tolerance()


@dataclass(frozen=True, kw_only=True)
class Tap:
    """One tensor of a run, on the CPU: at step `step` of `total` (from 1), or of its result (both None)."""

    name: str
    value: Tensor
    step: int | None = None
    total: int | None = None

    @property
    def place(self) -> str:
        """Where it was seen, as a person would say it."""
        return "result" if self.step is None else f"step {self.step} of {self.total}"


Trace = tuple[Tap, ...]
"""The taps of one picture, in the order in which they came to be."""


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """The first tap at which two runs differ; reads as one line."""

    place: str
    tap: str
    finding: str

    def __str__(self) -> str:
        return f"{self.place}, tap {self.tap}: {self.finding}"


def first_divergence(
    first: Trace, second: Trace, tolerances: Mapping[str, Tolerance] | None = None
) -> Divergence | None:
    """The earliest tap beyond its tolerance, None when all agree; bits must be equal where none is stated.

    A tap differs, too, when one run lacks it, when shapes or dtypes differ, and when it is empty in both:
    two runs that made nothing do not agree.
    """
    if not first and not second:
        return Divergence(place="result", tap="any", finding="neither run was seen to make anything")
    ours, theirs = _placed(first), _placed(second)
    for key in sorted({**ours, **theirs}, key=lambda key: max(_rank(ours, key), _rank(theirs, key))):
        tap = (ours.get(key) or theirs[key])[1]
        if key in ours and key in theirs:
            allowed = (tolerances or {}).get(tap.name, EXACT)
            finding = _difference(ours[key][1].value, theirs[key][1].value, allowed)
        else:
            finding = f"only in the {'first' if key in ours else 'second'} run"
        if finding:
            return Divergence(place=tap.place, tap=tap.name, finding=finding)
    return None


_Key = tuple[int | None, str]


def _placed(trace: Trace) -> dict[_Key, tuple[int, Tap]]:
    return {(tap.step, tap.name): (position, tap) for position, tap in enumerate(trace)}


def _rank(placed: Mapping[_Key, tuple[int, Tap]], key: _Key) -> int:
    return placed[key][0] if key in placed else -1


def _difference(first: Tensor, second: Tensor, allowed: Tolerance) -> str | None:
    if first.shape != second.shape:
        return f"shape {list(first.shape)} against {list(second.shape)}"
    if first.dtype != second.dtype:
        return f"dtype {first.dtype} against {second.dtype}".replace("torch.", "")
    if first.numel() == 0:
        return "empty in both runs"
    if torch.equal(_bits(first), _bits(second)):
        return None
    one, other = first.double(), second.double()
    unlike = (one != other) & ~(one.isnan() & other.isnan())
    if allowed == EXACT and not bool(unlike.any()):
        index = _where((_bits(first) != _bits(second)).reshape(*first.shape, -1).any(-1))
        return f"{float(first[index])} against {float(second[index])} at {list(index)}, other bits"
    return _beyond(one, other, unlike, allowed)


def _beyond(one: Tensor, other: Tensor, unlike: Tensor, allowed: Tolerance) -> str | None:
    for name, lost in (("first", one.isnan() & ~other.isnan()), ("second", other.isnan() & ~one.isnan())):
        if bool(lost.any()):
            return f"NaN in the {name} run alone at {list(_where(lost))}"
    apart = torch.where(unlike, (one - other).abs(), 0.0)
    # An infinite value would allow itself everything.
    room = allowed.absolute + allowed.relative * torch.where(other.isinf(), 0.0, other.abs())
    apart = torch.where(apart > room, apart, 0.0)
    if not bool(apart.any()):
        return None
    index = _where(apart == apart.max())
    return f"max difference {float(apart.max()):.3g} at {list(index)}, allowed {allowed}"


def _bits(value: Tensor) -> Tensor:
    """The bytes of a tensor, those of each element beside each other."""
    return value.contiguous().reshape(-1).view(torch.uint8)


def _where(mask: Tensor) -> tuple[int, ...]:
    return tuple(mask.nonzero()[0].tolist())


# Recording.


@dataclass(frozen=True, kw_only=True)
class Tracer:
    """An observer that keeps a copy of each tensor that the steps of one request read and make.

    What a step reads is told as `input.NAME`, once for as long as it stays the same tensor, so that a text
    encoding is kept once and not for each step.
    """

    name: str = "tracer"
    pictures: list[list[Tap]] = field(default_factory=list, init=False)

    def begin(self) -> _Picture:
        """The memory of the request's next picture."""
        self.pictures.append([])
        return _Picture(taps=self.pictures[-1])

    def observe(self, memory: _Picture, plan: StepPlan, outputs: Tensors, seconds: float) -> None:
        """Copy what is new."""
        read = {
            f"input.{name}": value
            for name, value in plan.inputs.items()
            if memory.read.get(name) is not value
        }
        memory.read.update(plan.inputs)
        ordered = sorted(outputs, key=lambda name: CAUSES.index(name) if name in CAUSES else len(CAUSES))
        for name, value in (read | {name: outputs[name] for name in ordered}).items():
            memory.taps.append(Tap(name=name, value=_copied(value), step=plan.index + 1, total=plan.total))


@dataclass(frozen=True, kw_only=True)
class _Picture:
    taps: list[Tap]
    read: dict[str, Tensor] = field(default_factory=dict)


def traces(tracer: Tracer, generation: Generation) -> dict[int, Trace]:
    """The trace of each picture of the request that the tracer watched, by its item."""
    watched = zip(generation.pictures, tracer.pictures, strict=True)
    return {picture.item: (*taps, *result_taps(picture)) for picture, taps in watched}


def traced(engine: Engine, card: str | ModelCard, request: Request) -> tuple[Generation, dict[int, Trace]]:
    """Run a request alone; what it yields, and the trace of each picture by its item."""
    tracer = Tracer()
    generation = engine.generate(card, request, StreamOptions(observers=(tracer,)))
    return generation, traces(tracer, generation)


def result_taps(picture: Picture) -> Trace:
    """The final latent, all log-probabilities, the sound and the frames of a picture."""
    found = {"latent": picture.latent}
    found["log_probs"] = torch.stack(picture.log_probs) if picture.log_probs else None
    found["audio"] = (
        None if picture.audio_CN is None else torch.from_numpy(np.array(picture.audio_CN, order="C"))
    )
    found["frames"] = torch.from_numpy(np.array(picture.frames_THWC, order="C"))
    return tuple(Tap(name=name, value=_copied(value)) for name, value in found.items() if value is not None)


def only(trace: Trace, names: Sequence[str]) -> Trace:
    """The taps of these names: what another implementation of the same model can be asked for, too."""
    return tuple(tap for tap in trace if tap.name in names)


def _copied(value: Tensor) -> Tensor:
    return value.detach().to("cpu", copy=True)

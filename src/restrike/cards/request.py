"""What a person asks for, and what that becomes once the card's defaults are in.

`resolve` is the one place where a request meets a card: precedence is request, then card; every fault is
reported at once. Nothing here draws noise, loads weights or imports torch.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from restrike.cards.card import LoopSpec, ModelCard, Task
from restrike.errors import Refused

if TYPE_CHECKING:
    import numpy as np

SEED_LIMIT = 2**53 - 1
COUNT_LIMIT = 1000


@dataclass(frozen=True, kw_only=True)
class Request:
    """A generation, as asked for; None means the card's default.

    `items` are the indices of the pictures to make: `(0, 1, 2)` is a batch of three, `(2,)` its third
    picture alone, with the same bytes. `image` is the conditioning picture (HWC, uint8). `sigmas` replaces
    the schedule and so decides the number of steps. `guidance_interval` is the range of sigma in which
    guidance acts; `guidance_every` reuses the guidance delta between every n-th step. `call` holds a
    pipeline's own call arguments, passed through as they are; only cards that take them accept any.
    `exact` refuses whatever would change the result, such as an extension that skips forwards.
    """

    prompt: str
    negative_prompt: str | None = None
    seed: int | None = None
    items: tuple[int, ...] = (0,)
    steps: int | None = None
    guidance: float | None = None
    guidance_2: float | None = None
    guidance_mode: str | None = None
    guidance_interval: tuple[float, float] = (0.0, 1.0)
    guidance_every: int = 1
    width: int | None = None
    height: int | None = None
    frames: int | None = None
    fps: float | None = None
    solver: str | None = None
    shift: float | None = None
    sigmas: tuple[float, ...] | None = None
    image: np.ndarray[Any, Any] | None = None
    call: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = False


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """A request with nothing left open: what a loop reads and what provenance records."""

    task: Task
    prompt: str
    negative_prompt: str
    seed: int
    items: tuple[int, ...]
    steps: int
    guidance: float
    guidance_2: float
    guidance_mode: str
    guidance_interval: tuple[float, float]
    guidance_every: int
    width: int
    height: int
    frames: int
    fps: float
    solver: str
    shift: float
    sigmas: tuple[float, ...] | None
    image: np.ndarray[Any, Any] | None
    call: Mapping[str, Any]
    exact: bool

    def recorded(self) -> dict[str, Any]:
        """The arguments as plain values for provenance: all but the seed, the items and the image."""
        left_out = {"seed", "items", "image", "task", "exact"}
        return {part.name: getattr(self, part.name) for part in fields(self) if part.name not in left_out}


def resolve(card: ModelCard, request: Request) -> tuple[LoopSpec, Arguments]:
    """Choose the loop that serves the request and fill in what it left open.

    Raises:
        Refused: with every fault of the request in one line.
    """
    arguments = _filled(card, request)
    loop = next((loop for loop in card.loops if arguments.task in loop.tasks), None)
    if loop is None:
        offered = ", ".join(card.tasks())
        raise Refused(f"card '{card.name}' does not do {arguments.task}; it does {offered}")
    faults = [
        *_prompt_and_items(arguments),
        *_numbers(arguments),
        *_sizes(card, arguments),
        *_sampling(card, loop, arguments),
    ]
    if request.call and not card.takes_call_arguments:
        faults.append(f"card '{card.name}' takes no pipeline arguments, but got {', '.join(request.call)}")
    if faults:
        raise Refused("; ".join(faults))
    return loop, arguments


def _filled(card: ModelCard, request: Request) -> Arguments:
    chosen: dict[str, Any] = {}
    for part in fields(Request):
        asked = getattr(request, part.name)
        chosen[part.name] = getattr(card.defaults, part.name, None) if asked is None else asked
    if request.sigmas is not None:
        chosen["steps"] = len(request.sigmas)
    if request.seed is None:
        chosen["seed"] = secrets.randbelow(SEED_LIMIT + 1)
    if request.guidance_2 is None:
        chosen["guidance_2"] = chosen["guidance"]
    return Arguments(task=_task(card, request, chosen["frames"]), **chosen)


def _task(card: ModelCard, request: Request, frames: int) -> Task:
    offered = card.tasks()
    if request.image is not None:
        return Task.IMAGE_TO_IMAGE if frames == 1 and Task.IMAGE_TO_IMAGE in offered else Task.IMAGE_TO_VIDEO
    # A video model that also makes stills declares both; one that does not makes a video of one frame.
    if frames == 1 and Task.TEXT_TO_IMAGE in offered:
        return Task.TEXT_TO_IMAGE
    return Task.TEXT_TO_VIDEO if frames > 1 or Task.TEXT_TO_VIDEO in offered else Task.TEXT_TO_IMAGE


def _prompt_and_items(asked: Arguments) -> Iterator[str]:
    if not asked.prompt.strip():
        yield "prompt is empty; say what to make"
    if not 0 <= asked.seed <= SEED_LIMIT:
        yield f"seed {asked.seed} is not an integer from 0 to {SEED_LIMIT}"
    if not asked.items:
        yield "no picture is asked for; the count is at least 1"
    elif len(asked.items) > COUNT_LIMIT:
        yield f"{len(asked.items)} pictures in one request; at most {COUNT_LIMIT}"
    elif min(asked.items) < 0 or len(set(asked.items)) < len(asked.items):
        yield f"items {asked.items} are not distinct indices from 0"


def _numbers(asked: Arguments) -> Iterator[str]:
    for name in ("guidance", "guidance_2", "shift", "fps"):
        value = getattr(asked, name)
        if not math.isfinite(value) or value < 0 or (value == 0 and name in ("shift", "fps")):
            yield f"{name} {value} is not a finite number {'above' if name in ('shift', 'fps') else 'from'} 0"
    low, high = asked.guidance_interval
    if not 0 <= low <= high <= 1:
        yield f"guidance_interval ({low}, {high}) is not an ascending range of sigma within 0 to 1"
    if asked.guidance_every < 1:
        yield f"guidance_every {asked.guidance_every} is not at least 1"
    if asked.sigmas is not None and not _descends(asked.sigmas):
        yield "sigmas do not descend strictly within 1 to above 0 (the closing 0 is added)"


def _descends(sigmas: tuple[float, ...]) -> bool:
    return (
        all(1 >= a > b > 0 for a, b in zip(sigmas, (*sigmas[1:], sigmas[-1] / 2), strict=True))
        if sigmas
        else False
    )


def _sizes(card: ModelCard, asked: Arguments) -> Iterator[str]:
    for name in ("width", "height", "frames"):
        allowed, value = getattr(card.geometry, name), getattr(asked, name)
        if not allowed.accepts(value):
            nearest = allowed.nearest(value)
            yield f"{name} {value}: card '{card.name}' takes {allowed}; the nearest is {nearest}"


def _sampling(card: ModelCard, loop: LoopSpec, asked: Arguments) -> Iterator[str]:
    least, most = card.recipe.steps
    if asked.steps < 1:
        yield f"steps {asked.steps} is not at least 1"
    elif not least <= asked.steps <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        yield f"steps {asked.steps}: the weights of '{card.name}' ({card.recipe.method}) assume {expected}"
    if loop.solvers and asked.solver not in loop.solvers:
        yield f"solver '{asked.solver}' is not offered by loop '{loop.name}': {', '.join(loop.solvers)}"
    if asked.guidance_mode not in loop.guidance:
        offered = ", ".join(loop.guidance)
        yield f"guidance_mode '{asked.guidance_mode}' is not offered by loop '{loop.name}': {offered}"

"""What a person asks for, and what that becomes once the card's defaults are in.

`resolve` is the one place where a request meets a card: precedence is request, then card; every fault is
reported at once. Nothing here draws noise, loads weights or imports torch.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from restrike.cards.adapters import Adapter
from restrike.cards.card import LoopSpec, ModelCard, Task
from restrike.cards.request_faults import SEED_LIMIT, Fault, contradictions_of, faults_of
from restrike.cards.request_values import read, recordable
from restrike.errors import Refused

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, kw_only=True)
class Request:
    """A generation, as asked for; None means the card's default.

    `items` are the indices of the pictures to make: `(0, 1, 2)` is a batch of three, `(2,)` its third
    picture alone, with the same bytes. `image` is the conditioning picture (HWC, uint8). `sigmas` replaces
    the schedule and so decides the number of steps. `guidance_interval` is the range of sigma in which
    guidance acts; `guidance_every` reuses the guidance delta between every n-th step. `call` holds a
    pipeline's own call arguments, passed through as they are; only cards that take them accept any.
    `adapters` are LoRAs that act on the weights for this request alone, in the order given.
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
    adapters: tuple[Adapter, ...] = ()
    exact: bool = False


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """A request with nothing left open: what a loop reads and what provenance records.

    The exception is a card that takes call arguments: its model has defaults of its own, `left_open` names
    the fields that are left to them, and their values here are nominal. It is empty for every other card.
    """

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
    adapters: tuple[Adapter, ...]
    exact: bool
    left_open: frozenset[str] = frozenset()

    def recorded(self) -> dict[str, Any]:
        """The arguments as plain values for provenance: all but the seed and the items.

        An image is named by its digest, an adapter by its own and the name of its file. What was left open is
        left out, so that making the picture again leaves it open again; so is what says nothing, as in the
        files of workflows: the same picture is the same file, however it was asked for.
        """
        left_out = {"seed", "items", "image", "adapters", "task", "exact", "left_open", *self.left_open}
        given = {part.name: getattr(self, part.name) for part in fields(self) if part.name not in left_out}
        chosen = {name: value for name, value in given.items() if value is not None and name != "call"}
        image = {} if self.image is None else {"image": recordable(self.image)}
        adapters = {"adapters": [each.recorded() for each in self.adapters]} if self.adapters else {}
        call = {"call": recordable(self.call)} if self.call else {}
        return chosen | image | adapters | call

    def settled(self) -> Arguments:
        """The same with the files of its adapters, fetched and digested; raises NotFound or Refused."""
        if not self.adapters:
            return self
        return replace(self, adapters=tuple(adapter.settled() for adapter in self.adapters))


def resolve(card: ModelCard, request: Request) -> tuple[LoopSpec, Arguments]:
    """Choose the loop that serves the request and fill in what it left open.

    Raises:
        Refused: with every fault of the request in one line.
    """
    examined = examine(card, request)
    faults = (*examined.faults, *examined.contradictions)
    if faults or examined.loop is None or examined.arguments is None:
        raise Refused("; ".join(fault.message for fault in faults))
    return examined.loop, examined.arguments


@dataclass(frozen=True, kw_only=True)
class Examined:
    """A request held against a card: what is wrong with each argument, and with several together."""

    loop: LoopSpec | None = None
    arguments: Arguments | None = None
    faults: tuple[Fault, ...] = ()
    contradictions: tuple[Fault, ...] = ()


def examine(card: ModelCard, request: Request) -> Examined:
    """Hold a request against a card; `arguments` is None when one of its values is of the wrong kind."""
    chosen, unread = _read(card, request)
    if unread:
        return Examined(faults=unread)
    arguments = _filled(card, request, chosen)
    loop = next((loop for loop in card.loops if arguments.task in loop.tasks), None)
    return Examined(
        loop=loop,
        arguments=arguments,
        faults=faults_of(card, loop, arguments),
        contradictions=contradictions_of(card, loop, request, arguments),
    )


def _read(card: ModelCard, request: Request) -> tuple[dict[str, Any], tuple[Fault, ...]]:
    chosen: dict[str, Any] = {}
    faults: list[Fault] = []
    for part in fields(Request):
        asked = getattr(request, part.name)
        if asked is None and part.default is None:
            chosen[part.name] = getattr(card.defaults, part.name, None)
            continue
        try:
            chosen[part.name] = read(part.name, asked)
        except ValueError as error:
            faults.append(Fault(part.name, str(error)))
    return chosen, tuple(faults)


def _filled(card: ModelCard, request: Request, chosen: dict[str, Any]) -> Arguments:
    if request.sigmas is not None:
        chosen["steps"] = len(chosen["sigmas"])
    if request.seed is None:
        chosen["seed"] = secrets.randbelow(SEED_LIMIT + 1)
    if request.guidance_2 is None:
        chosen["guidance_2"] = chosen["guidance"]
    left_open = _not_set(request) if card.takes_call_arguments else frozenset()
    return Arguments(task=_task(card, request, chosen["frames"]), left_open=left_open, **chosen)


def _not_set(request: Request) -> frozenset[str]:
    # The rest has no default that a model could have its own of.
    always_meant = {"prompt", "seed", "items", "image", "call", "adapters", "exact"}
    optional = [part for part in fields(Request) if part.name not in always_meant]
    return frozenset(part.name for part in optional if _is_default(getattr(request, part.name), part.default))


def _is_default(value: Any, default: Any) -> bool:
    return value is None if default is None else value == default


def _task(card: ModelCard, request: Request, frames: int) -> Task:
    offered = card.tasks()
    # A video model that also makes stills declares both; one that does not makes a video of one frame.
    image, video = (
        (Task.TEXT_TO_IMAGE, Task.TEXT_TO_VIDEO)
        if request.image is None
        else (Task.IMAGE_TO_IMAGE, Task.IMAGE_TO_VIDEO)
    )
    return image if frames <= 1 and (image in offered or video not in offered) else video

"""Finds every fault of a request that was filled in for a card.

Each fault is one clause that names the argument, its value and what is possible; nothing is repaired.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from restrike.cards.adapters import COUNT_LIMIT as ADAPTERS_LIMIT
from restrike.cards.adapters import STRENGTH_LIMIT
from restrike.cards.card import LoopSpec, ModelCard
from restrike.errors import RestrikeError

if TYPE_CHECKING:
    from restrike.cards.request import Arguments, Request

SEED_LIMIT = 2**53 - 1
COUNT_LIMIT = 1000
LIMITS = {"guidance": (0, 1000), "guidance_2": (0, 1000), "shift": (0.01, 100), "fps": (0.1, 1000)}
BRANCHED = ("cfg", "batched")
_SHOWN = 60
"""So many characters of a prompt are shown."""


@dataclass(frozen=True)
class Fault:
    """One clause on what is wrong, and the argument of the request that it is about; "" for all of it."""

    argument: str
    message: str


def faults_of(card: ModelCard, loop: LoopSpec | None, asked: Arguments) -> tuple[Fault, ...]:
    """The faults that each argument has by itself; `loop` is None when none of the card serves the task."""
    faults = [*_prompt_and_items(card, asked), *_meaning(card, asked), *_numbers(asked)]
    faults += [*_sizes(card, asked), *_steps(card, asked)]
    if loop is None:
        message = f"card '{card.name}' does not do {asked.task}; it does {', '.join(card.tasks())}"
        faults.insert(0, Fault("", message))
    else:
        faults += [*_choices(loop, asked), *_sigmas(asked)]
    if asked.call and not card.takes_call_arguments:
        names = ", ".join(f"'{name}'" for name in asked.call)
        faults.append(Fault("call", f"card '{card.name}' takes no pipeline arguments, but call has {names}"))
    faults += _adapters(card, loop, asked)
    return tuple(dict.fromkeys(faults))


def contradictions_of(
    card: ModelCard, loop: LoopSpec | None, request: Request, asked: Arguments
) -> tuple[Fault, ...]:
    """The faults that arguments have together: one that denies another, or takes its effect away."""
    if loop is None:
        return ()
    faults = list(_without_effect(card, loop, asked))
    if asked.sigmas is not None and request.steps is not None and request.steps != len(asked.sigmas):
        count = len(asked.sigmas)
        faults.append(
            Fault("steps", f"steps {request.steps} contradicts the {count} sigmas; leave one of them out")
        )
    return tuple(faults)


def _prompt_and_items(card: ModelCard, asked: Arguments) -> Iterator[Fault]:
    # A model with call arguments may take no prompt; one that does refuses an empty one itself.
    if not asked.prompt.strip() and not card.takes_call_arguments:
        yield Fault("prompt", "prompt is empty; say what to make")
    if not 0 <= asked.seed <= SEED_LIMIT:
        message = f"seed {asked.seed} is not an integer from 0 to {SEED_LIMIT}; leave it out to draw one"
        yield Fault("seed", message)
    if not asked.items:
        yield Fault("items", "no picture is asked for; the count is at least 1")
    elif len(asked.items) > COUNT_LIMIT:
        yield Fault("items", f"{len(asked.items)} pictures in one request; at most {COUNT_LIMIT}")
    elif min(asked.items) < 0 or len(set(asked.items)) < len(asked.items):
        yield Fault("items", f"items {asked.items} are not distinct indices from 0")
    elif max(asked.items) > SEED_LIMIT:
        yield Fault("items", f"item {max(asked.items)} is not an index from 0 to {SEED_LIMIT}")


def _meaning(card: ModelCard, asked: Arguments) -> Iterator[Fault]:
    """What keeps a text from saying anything to the card; an empty one says nothing on purpose."""
    read = ("prompt", "negative_prompt") if _reads_negative(asked) else ("prompt",)
    for name in read:
        text = " ".join(getattr(asked, name).split())
        why = card.prompt_fault(text) if text and card.prompt_fault is not None else None
        if why is not None:
            begun = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
            yield Fault(name, f"{name} '{begun}' {why}")


def _numbers(asked: Arguments) -> Iterator[Fault]:
    for name, (least, most) in LIMITS.items():
        value = getattr(asked, name)
        # An open guidance_2 is a copy of guidance, whose fault is told already.
        if not least <= value <= most and not (name == "guidance_2" and _same(value, asked.guidance)):
            yield Fault(name, f"{name} {value} is not a number from {least} to {most}")
    low, high = asked.guidance_interval
    if not 0 <= low <= high <= 1:
        message = f"guidance_interval ({low}, {high}) is not an ascending range of sigma within 0 to 1"
        yield Fault("guidance_interval", message)
    if asked.guidance_every < 1:
        yield Fault("guidance_every", f"guidance_every {asked.guidance_every} is not at least 1")


def _same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)


def _sizes(card: ModelCard, asked: Arguments) -> Iterator[Fault]:
    for name in ("width", "height", "frames"):
        allowed, value = getattr(card.geometry, name), getattr(asked, name)
        if not allowed.accepts(value):
            only = allowed.minimum == allowed.maximum
            limits = f"only {allowed}" if only else f"{allowed}; the nearest is {allowed.nearest(value)}"
            yield Fault(name, f"{name} {value}: card '{card.name}' takes {limits}")


def _steps(card: ModelCard, asked: Arguments) -> Iterator[Fault]:
    least, most = card.recipe.steps
    if asked.steps < 1:
        yield Fault("steps", f"steps {asked.steps} is not at least 1")
    elif not least <= asked.steps <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        made = f"the weights of '{card.name}' ({card.recipe.method})"
        yield Fault("steps", f"steps {asked.steps}: {made} assume {expected}")


def _choices(loop: LoopSpec, asked: Arguments) -> Iterator[Fault]:
    if loop.solvers and asked.solver not in loop.solvers:
        offered = ", ".join(loop.solvers)
        yield Fault("solver", f"solver '{asked.solver}' is not offered by loop '{loop.name}': {offered}")
    if asked.guidance_mode not in loop.guidance:
        offered = ", ".join(loop.guidance)
        message = f"guidance_mode '{asked.guidance_mode}' is not offered by loop '{loop.name}': {offered}"
        yield Fault("guidance_mode", message)


def _adapters(card: ModelCard, loop: LoopSpec | None, asked: Arguments) -> Iterator[Fault]:
    """Each adapter by itself, without reading its tensors: whether they fit is known to the modules alone."""
    if len(asked.adapters) > ADAPTERS_LIMIT:
        yield Fault("adapters", f"{len(asked.adapters)} adapters in one request; at most {ADAPTERS_LIMIT}")
    for adapter in asked.adapters[:ADAPTERS_LIMIT]:
        whose = f"LoRA '{adapter.name}'"
        if not -STRENGTH_LIMIT <= adapter.strength <= STRENGTH_LIMIT:
            limits = f"{-STRENGTH_LIMIT:g} to {STRENGTH_LIMIT:g}"
            yield Fault("adapters", f"{whose}: strength {adapter.strength} is not a number from {limits}")
        if loop and adapter.component is not None:
            yield from _component(card, loop, whose, adapter.component)
        try:
            adapter.source()
        except RestrikeError as error:
            sent = f" (for component '{adapter.component}')" if adapter.component else ""
            yield Fault("adapters", f"{error.message}{sent}")


def _component(card: ModelCard, loop: LoopSpec, whose: str, component: str) -> Iterator[Fault]:
    if loop.opaque:
        message = f"{whose}: card '{card.name}' reads from the file what it is for; leave component out"
        yield Fault("adapters", message)
    elif component not in loop.components:
        exists = ", ".join(loop.components)
        yield Fault("adapters", f"{whose}: card '{card.name}' has no component '{component}', only {exists}")


def _sigmas(asked: Arguments) -> Iterator[Fault]:
    if asked.sigmas is not None and not _descends(asked.sigmas):
        yield Fault("sigmas", "sigmas do not descend strictly within 1 to above 0 (the closing 0 is added)")


def _descends(sigmas: tuple[float, ...]) -> bool:
    # As the schedule holds them: two that differ only beyond float32 would make a step of no length.
    held = array("f", [*sigmas, 0.0])
    return 0 < held[0] <= 1 and all(a > b for a, b in pairwise(held))


def _without_effect(card: ModelCard, loop: LoopSpec, asked: Arguments) -> Iterator[Fault]:
    """Arguments that were changed from the card's default and that this request would not read."""
    if card.takes_call_arguments:
        return
    default, mode = card.defaults, asked.guidance_mode
    because = f"has no effect, since guidance_mode is '{mode}'"
    if mode == "none" and asked.guidance > 1 and asked.guidance != default.guidance:
        yield Fault("guidance", f"guidance {asked.guidance} {because}")
    if mode not in BRANCHED and asked.guidance_every > 1:
        yield Fault("guidance_every", f"guidance_every {asked.guidance_every} {because}")
    if mode not in BRANCHED and asked.guidance_interval != (0.0, 1.0):
        message = f"guidance_interval {asked.guidance_interval} {because}"
        yield Fault("guidance_interval", message)
    if asked.negative_prompt != default.negative_prompt and not _reads_negative(asked):
        message = f"negative_prompt has no effect with guidance_mode '{mode}' and guidance {asked.guidance}"
        yield Fault("negative_prompt", message)
    if not loop.solvers and asked.solver != default.solver:
        message = f"solver '{asked.solver}' has no effect: loop '{loop.name}' has its own"
        yield Fault("solver", message)
    if asked.sigmas is not None and asked.shift != default.shift:
        yield Fault("shift", f"shift {asked.shift} has no effect, since sigmas are given")


def _reads_negative(asked: Arguments) -> bool:
    return asked.guidance_mode in BRANCHED and max(asked.guidance, asked.guidance_2) > 1

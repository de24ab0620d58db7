"""Finds every fault of a card at once, without a device and without weights.

It reads the declaration only and never repairs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from restrike.cards.card import ModelCard

DTYPES = ("float32", "bfloat16", "float16")
GUIDANCE_MODES = ("none", "cfg", "batched", "embedded")


def faults_of(card: ModelCard) -> tuple[str, ...]:
    """Each fault as one clause that names the field, the value and what exists."""
    return (*_names(card), *_loops(card), *_recipe(card), *_precision(card), *_defaults(card))


def _repeated(kind: str, names: Iterable[str]) -> Iterator[str]:
    for name, times in Counter(names).items():
        if times > 1:
            yield f"{kind} '{name}' is declared {times} times"


def _names(card: ModelCard) -> Iterator[str]:
    if not card.components:
        yield "components is empty"
    if not card.loops:
        yield "loops is empty"
    yield from _repeated("component", (part.name for part in card.components))
    yield from _repeated("loop", (loop.name for loop in card.loops))
    yield from (f"component '{part.name}' names no files" for part in card.components if not part.files)


def _loops(card: ModelCard) -> Iterator[str]:
    known = [part.name for part in card.components]
    for loop in card.loops:
        if not loop.tasks:
            yield f"loop '{loop.name}' serves no task"
        for name in loop.components:
            if name not in known:
                yield f"loop '{loop.name}' reads component '{name}', declared are {', '.join(known)}"
        for mode in loop.guidance:
            if mode not in GUIDANCE_MODES:
                yield f"loop '{loop.name}' offers guidance '{mode}', known are {', '.join(GUIDANCE_MODES)}"
    read = {name for loop in card.loops for name in loop.components}
    yield from (f"component '{name}' is read by no loop" for name in known if card.loops and name not in read)


def _recipe(card: ModelCard) -> Iterator[str]:
    recipe, loops = card.recipe, [loop.name for loop in card.loops]
    if recipe.loop not in loops:
        yield f"recipe assumes loop '{recipe.loop}', declared are {', '.join(loops) or 'none'}"
    least, most = recipe.steps
    if not 1 <= least <= most:
        yield f"recipe.steps {recipe.steps} is not an ascending range from 1"
    elif not least <= card.defaults.steps <= most:
        yield f"defaults.steps {card.defaults.steps} is outside recipe.steps {least} to {most}"
    if recipe.precision is not None and recipe.precision not in card.precisions:
        yield f"recipe assumes precision '{recipe.precision}', the card holds {', '.join(card.precisions)}"


def _precision(card: ModelCard) -> Iterator[str]:
    if not card.precisions:
        yield "precisions is empty"
    for dtype in card.precisions:
        if dtype not in DTYPES:
            yield f"precision '{dtype}' is not one of {', '.join(DTYPES)}"


def _defaults(card: ModelCard) -> Iterator[str]:
    chosen = card.defaults
    for axis in ("width", "height", "frames"):
        allowed, value = getattr(card.geometry, axis), getattr(chosen, axis)
        if not allowed.accepts(value):
            yield f"defaults.{axis} {value} is outside the card's own {allowed}"
    modes = {mode for loop in card.loops for mode in loop.guidance}
    if card.loops and chosen.guidance_mode not in modes:
        yield f"defaults.guidance_mode '{chosen.guidance_mode}' is offered by no loop"
    solvers = {solver for loop in card.loops for solver in loop.solvers}
    if solvers and chosen.solver not in solvers:
        yield f"defaults.solver '{chosen.solver}' is offered by no loop"

"""Finds every fault of a card at once, without a device and without weights.

It reads the declaration only and never repairs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from restrike.cards.card import LoopSpec, ModelCard
from restrike.cards.compile import compile_faults
from restrike.cards.request_faults import LIMITS

DTYPES = ("float32", "bfloat16", "float16")
GUIDANCE_MODES = ("none", "cfg", "batched", "embedded")
CAPTURE_POLICIES = ("off", "auto", "required")


def faults_of(card: ModelCard) -> tuple[str, ...]:
    """Each fault as one clause that names the field, the value and what exists."""
    return (
        *_names(card),
        *_loops(card),
        *_tasks(card),
        *_recipe(card),
        *_precision(card),
        *_geometry(card),
        *_defaults(card),
        *compile_faults(card),
    )


def _repeated(kind: str, names: Iterable[str]) -> Iterator[str]:
    for name, times in Counter(names).items():
        if times > 1:
            yield f"{kind} '{name}' is declared {times} times"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _names(card: ModelCard) -> Iterator[str]:
    if not card.name.strip():
        yield "name is empty"
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
        if not loop.components:
            yield f"loop '{loop.name}' reads no component"
        if not loop.guidance:
            yield f"loop '{loop.name}' offers no guidance, known are {_listed(GUIDANCE_MODES)}"
        for name in loop.components:
            if name not in known:
                yield f"loop '{loop.name}' reads component '{name}', declared are {_listed(known)}"
        yield from _capture(loop)
        for mode in loop.guidance:
            if mode not in GUIDANCE_MODES:
                yield f"loop '{loop.name}' offers guidance '{mode}', known are {_listed(GUIDANCE_MODES)}"
    read = {name for loop in card.loops for name in loop.components}
    yield from (f"component '{name}' is read by no loop" for name in known if card.loops and name not in read)


def _capture(loop: LoopSpec) -> Iterator[str]:
    if loop.capture not in CAPTURE_POLICIES:
        yield f"loop '{loop.name}' has capture '{loop.capture}', known are {_listed(CAPTURE_POLICIES)}"
    elif loop.opaque and loop.capture == "required":
        yield f"loop '{loop.name}' is opaque, so its steps cannot be captured; its capture is 'required'"


def _tasks(card: ModelCard) -> Iterator[str]:
    yield from (f"loop '{loop.name}' serves no task" for loop in card.loops if not loop.tasks)
    served = Counter(task for loop in card.loops for task in set(loop.tasks))
    yield from (f"task '{task}' is served by {times} loops" for task, times in served.items() if times > 1)


def _recipe(card: ModelCard) -> Iterator[str]:
    recipe, loops = card.recipe, [loop.name for loop in card.loops]
    if recipe.loop not in loops:
        yield f"recipe assumes loop '{recipe.loop}', declared are {_listed(loops)}"
    least, most = recipe.steps
    if not 1 <= least <= most:
        yield f"recipe.steps {recipe.steps} is not an ascending range from 1"
    elif not least <= card.defaults.steps <= most:
        yield f"defaults.steps {card.defaults.steps} is outside recipe.steps {least} to {most}"
    if recipe.precision is not None and recipe.precision not in card.precisions:
        yield f"recipe assumes precision '{recipe.precision}', the card holds {_listed(card.precisions)}"
    if card.name in recipe.parents:
        yield f"recipe names '{card.name}' as its own parent"


def _precision(card: ModelCard) -> Iterator[str]:
    if not card.precisions:
        yield "precisions is empty"
    for dtype in card.precisions:
        if dtype not in DTYPES:
            yield f"precision '{dtype}' is not one of {_listed(DTYPES)}"


def _geometry(card: ModelCard) -> Iterator[str]:
    for name in ("width", "height", "frames"):
        axis, default = getattr(card.geometry, name), getattr(card.defaults, name)
        if axis.step < 1:
            yield f"geometry.{name} has step {axis.step}, which is not at least 1"
        elif axis.minimum < 1 or not axis.accepts(axis.nearest(axis.minimum)):
            yield f"geometry.{name} allows no size from 1: {axis}"
        elif not axis.accepts(default):
            yield f"defaults.{name} {default} is outside the card's own {axis}"


def _defaults(card: ModelCard) -> Iterator[str]:
    chosen = card.defaults
    for name, (least, most) in LIMITS.items():
        value = getattr(chosen, name, least)
        if not least <= value <= most:
            yield f"defaults.{name} {value} is not a number from {least} to {most}"
    for loop in card.loops:
        if loop.guidance and chosen.guidance_mode not in loop.guidance:
            yield f"defaults.guidance_mode '{chosen.guidance_mode}' is not offered by loop '{loop.name}'"
        if loop.solvers and chosen.solver not in loop.solvers:
            yield f"defaults.solver '{chosen.solver}' is not offered by loop '{loop.name}'"

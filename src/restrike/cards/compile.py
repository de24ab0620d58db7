"""What of a card can be compiled: its targets, and the shapes of the calls that are worth it.

A declaration only; nothing here imports torch or decides whether a process can compile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from restrike.cards.request_faults import BRANCHED

if TYPE_CHECKING:
    from restrike.cards.card import LoopSpec, ModelCard

Option = tuple[str, bool | int | float | str]
"""An option of the compiler by torch's own dotted name, and its value."""


@dataclass(frozen=True, kw_only=True)
class CompileTarget:
    """One denoiser: what is compiled is the engine's call of it with the tensors of a guidance branch.

    `ingress` are the names of all tensors that such a call may read; `text` is the one among them that holds
    the text's tokens along its second axis.
    """

    component: str
    ingress: tuple[str, ...]
    text: str


@dataclass(frozen=True, kw_only=True)
class ShapeClass:
    """One row of the warm plan: the request whose calls are compiled.

    Sizes in pixels and frames; `guidance` is a mode of the card's loop; `text_tokens` is the length of the
    text that a call reads; `batch` is how many requests step together, or the least and the most of them;
    `from_image` marks the loop that starts from a picture.
    """

    width: int
    height: int
    frames: int = 1
    guidance: str = "none"
    text_tokens: int
    batch: int | tuple[int, int] = 1
    from_image: bool = False

    @property
    def name(self) -> str:
        """How a person names it: `64x64x17-batched`."""
        size = "x".join(map(str, (self.width, self.height, self.frames)[: 2 + (self.frames > 1)]))
        low, high = self.batches
        together = "" if (low, high) == (1, 1) else f"-b{low}" if low == high else f"-b{low}to{high}"
        return f"{size}-{self.guidance}{together}{'-image' * self.from_image}"

    @property
    def batches(self) -> tuple[int, int]:
        """The least and the most requests that step together."""
        return (self.batch, self.batch) if isinstance(self.batch, int) else self.batch


@dataclass(frozen=True, kw_only=True)
class Compile:
    """A card's compile declaration.

    `shapes` are in the order of their need. `tolerance` is the largest difference from eager that a compiled
    call may have, relative to the largest value of eager's answer; `half_tolerance` is the same for weights
    in bfloat16 or float16.
    """

    targets: tuple[CompileTarget, ...]
    shapes: tuple[ShapeClass, ...]
    tolerance: float
    half_tolerance: float = 0.03
    options: tuple[Option, ...] = ()

    def tolerance_in(self, dtype: str) -> float:
        """The tolerance of a card whose weights are in `dtype`."""
        return self.tolerance if dtype == "float32" else self.half_tolerance


def compile_faults(card: ModelCard) -> Iterator[str]:
    """Each fault of the card's compile declaration, as one clause; none when it declares nothing."""
    declared = card.compile
    if declared is None:
        return
    yield from _target_faults(card, declared)
    if not declared.shapes:
        yield "compile.shapes is empty"
    for shape in declared.shapes:
        yield from (f"compile.shapes '{shape.name}': {fault}" for fault in shape_faults(card, shape))
    yield from _repeated("compile.shapes", (shape.name for shape in declared.shapes))
    yield from _repeated("compile.options", (name for name, _ in declared.options))
    for name in ("tolerance", "half_tolerance"):
        if not 0 < getattr(declared, name) <= 0.1:
            yield f"compile.{name} {getattr(declared, name)} is not above 0 and at most 0.1"


def _target_faults(card: ModelCard, declared: Compile) -> Iterator[str]:
    if not declared.targets:
        yield "compile.targets is empty"
    known = [part.name for part in card.components]
    for target in declared.targets:
        if target.component not in known:
            yield f"compile target '{target.component}' is no component, declared are {', '.join(known)}"
        if target.text not in target.ingress:
            listed = ", ".join(target.ingress) or "nothing"
            yield f"compile target '{target.component}': text '{target.text}' is not in its ingress, {listed}"
        yield from _repeated(f"compile target '{target.component}': ingress", target.ingress)
    yield from _repeated("compile target", (target.component for target in declared.targets))


def shape_faults(card: ModelCard, shape: ShapeClass) -> Iterator[str]:
    """Each fault of one shape class of the card, as a clause without its name."""
    for name in ("width", "height", "frames"):
        axis, value = getattr(card.geometry, name), getattr(shape, name)
        if axis.step >= 1 and not axis.accepts(value):
            yield f"{name} {value}, the card takes {axis}"
    if not any(shape.guidance in loop.guidance for loop in _loops_of(card, shape)):
        yield f"no loop {'from a picture ' * shape.from_image}offers guidance '{shape.guidance}'"
    elif shape.guidance in BRANCHED and card.defaults.guidance <= 1:
        yield f"guidance '{shape.guidance}' does nothing at the card's own scale {card.defaults.guidance}"
    if shape.text_tokens < 1:
        yield f"text_tokens {shape.text_tokens} is not at least 1"
    low, high = shape.batches
    if not 1 <= low <= high:
        yield f"batch {shape.batch} is not at least 1, or not ascending"


def _loops_of(card: ModelCard, shape: ShapeClass) -> list[LoopSpec]:
    return [
        loop
        for loop in card.loops
        if any(str(task).startswith("image-to-") == shape.from_image for task in loop.tasks)
    ]


def _repeated(kind: str, names: Iterable[str]) -> Iterator[str]:
    for name, times in Counter(names).items():
        if times > 1:
            yield f"{kind} '{name}' is declared {times} times"

"""The model card: one frozen declaration of a model's components, loops, limits and defaults.

A card describes; it holds no weights, needs no device and keeps no state. Loaders and loop builders are
functions that import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from restrike.errors import Refused

if TYPE_CHECKING:
    from restrike.cards.checkpoint import Checkpoint, Location
    from restrike.cards.compile import Compile
    from restrike.cards.placement import Placement


class Task(StrEnum):
    """What goes in and what comes out."""

    TEXT_TO_IMAGE = "text-to-image"
    TEXT_TO_VIDEO = "text-to-video"
    IMAGE_TO_IMAGE = "image-to-image"
    IMAGE_TO_VIDEO = "image-to-video"


@dataclass(frozen=True, kw_only=True)
class Component:
    """One loadable part of a model.

    `load` builds it on a placement from the checkpoint; `files` are glob patterns, relative to the
    checkpoint's folder, of all that decides its output (weights and configuration): they are its identity.
    An `optional` component may be missing from a checkpoint. What one that is not `sized_by_files` holds on
    its device is not what its weight files tell: quantized, in parts, or brought there piece by piece.
    """

    name: str
    load: Callable[[Checkpoint, Placement], Any]
    files: tuple[str, ...]
    optional: bool = False
    sized_by_files: bool = True


@dataclass(frozen=True, kw_only=True)
class LoopSpec:
    """One driven loop of a card: which tasks it serves, which components it reads, how it is built.

    The forwards of an `opaque` loop are not the engine's to see, so no extension can answer in their place,
    and none of its steps is captured. `capture` says whether the engine may replay steps as graphs: "auto",
    "off", or "required" for a card that is not to be served without.
    """

    name: str
    tasks: tuple[Task, ...]
    components: tuple[str, ...]
    build: Callable[[Checkpoint], Any]
    solvers: tuple[str, ...] = ()
    guidance: tuple[str, ...] = ("none",)
    opaque: bool = False
    capture: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the weights were made, and what they therefore assume of sampling.

    A checkpoint distilled to four steps has `steps=(4, 4)`; a request for fifty is refused.
    `parents` are the names of the cards that this one was trained from.
    """

    method: str
    loop: str
    steps: tuple[int, int] = (1, 1000)
    precision: str | None = None
    parents: tuple[str, ...] = ()


_FEW = 6
"""So many values are listed one by one."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """The values that one size may take: `offset + k * step`, within `[minimum, maximum]`."""

    minimum: int
    maximum: int
    step: int = 1
    offset: int = 0

    def accepts(self, value: int) -> bool:
        """Whether `value` is one of the allowed sizes."""
        return self.minimum <= value <= self.maximum and (value - self.offset) % self.step == 0

    def nearest(self, value: int) -> int:
        """The allowed size that is closest to `value`."""
        lowest = self.minimum + (self.offset - self.minimum) % self.step
        highest = self.maximum - (self.maximum - self.offset) % self.step
        # In whole numbers, so that no value is too large; a tie goes up.
        rounded = (2 * (value - lowest) + self.step) // (2 * self.step) * self.step + lowest
        return max(lowest, min(highest, rounded))

    def __str__(self) -> str:
        if self.minimum == self.maximum:
            return str(self.minimum)
        if self.step == 1:
            return f"{self.minimum} to {self.maximum}"
        values = [*range(self.nearest(self.minimum), self.maximum + 1, self.step)]
        if len(values) in range(2, _FEW + 1):
            return f"{', '.join(map(str, values[:-1]))} or {values[-1]}"
        grid = f"multiples of {self.step}" if self.offset == 0 else f"{self.step}k + {self.offset}"
        return f"{grid} from {self.minimum} to {self.maximum}"


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The sizes that a card can make; pixels and frames."""

    width: Axis
    height: Axis
    frames: Axis = field(default_factory=lambda: Axis(minimum=1, maximum=1))


@dataclass(frozen=True, kw_only=True)
class SamplingDefaults:
    """What a request that does not say gets. A card without guidance has `guidance_mode="none"`."""

    width: int
    height: int
    steps: int
    frames: int = 1
    fps: float = 8.0
    guidance: float = 1.0
    guidance_mode: str = "none"
    solver: str = "euler"
    shift: float = 1.0
    negative_prompt: str = ""


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How a card takes on what a checkpoint's own configuration decides: tasks, sizes, sampling.

    `files` are all that `fit` reads, so that no weights are fetched for it.
    """

    files: tuple[str, ...]
    fit: Callable[[ModelCard, Checkpoint], ModelCard]


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """A model: components, loops, limits, defaults, recipe, and where its weights are.

    `location` is None for a card of published weights that needs one from the user; `precisions` are the
    dtypes it is known to hold in, the first being its default; `pipelines` are the class names in a
    `model_index.json` that this card serves. A card with a `fitting` is one of a family until it is fitted
    to a checkpoint. `libraries` are the packages beside torch that compute for it: their versions go into
    provenance. `adapter_names` brings the names of a LoRA as other trainers write them to those of peft.
    `example` is a prompt that it serves well. `prompt_fault` says of a text what keeps it from being a prompt
    here, beginning with the verb, or None. `compile` says what of it can be compiled, None for nothing.
    """

    name: str
    description: str
    architecture: str
    license: str
    components: tuple[Component, ...]
    loops: tuple[LoopSpec, ...]
    defaults: SamplingDefaults
    geometry: Geometry
    recipe: Recipe
    precisions: tuple[str, ...] = ("float32",)
    location: Location | None = None
    pipelines: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    takes_call_arguments: bool = False
    adapter_names: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    example: str = ""
    prompt_fault: Callable[[str], str | None] | None = None
    fitting: Fitting | None = None
    compile: Compile | None = None

    def component(self, name: str) -> Component:
        """The component of that name; raises KeyError, which a validated card never does."""
        return next(part for part in self.components if part.name == name)

    def precision(self, asked: str | None = None) -> str:
        """The dtype that its weights are used in: the one asked for, its recipe's, or its first.

        Raises:
            Refused: the card is not known to hold in that precision.
        """
        dtype = asked or self.recipe.precision or self.precisions[0]
        if dtype not in self.precisions:
            held = ", ".join(self.precisions)
            raise Refused(f"precision '{dtype}': card '{self.name}' holds {held}")
        return dtype

    @property
    def address(self) -> str:
        """What finds the card again anywhere: its hub id or its name; never the path of a folder."""
        from restrike.cards.checkpoint import HubRepository

        return str(self.location) if isinstance(self.location, HubRepository) else self.name

    def tasks(self) -> tuple[Task, ...]:
        """All tasks of all loops, in the order of declaration."""
        return tuple(dict.fromkeys(task for loop in self.loops for task in loop.tasks))

    def validate(self) -> ModelCard:
        """Return the card itself, or raise `InvalidCard` with every fault at once."""
        from restrike.cards.validation import faults_of

        faults = faults_of(self)
        if faults:
            raise InvalidCard(self.name, faults)
        return self


class InvalidCard(Refused):
    """A card contradicts itself."""

    def __init__(self, name: str, faults: tuple[str, ...]) -> None:
        self.faults = faults
        super().__init__(f"card '{name}' has {len(faults)} fault(s): {'; '.join(faults)}")

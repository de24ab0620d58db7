"""What each phase of a card's requests takes beside the weights, measured at its first time and remembered.

A phase is the encoding, one kind of step, the preview or the decoding, of requests of one form. It predicts
and decides nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from restrike.cards.card import LoopSpec
from restrike.cards.request import Arguments
from restrike.engine.memory.parts import Part
from restrike.loops.contract import StepPlan

ENCODE, STEP, PREVIEW, DECODE = "encode", "step", "preview", "decode"
"""The phases of a picture."""
_FORMS = 256
"""So many forms of requests are remembered of a card; beyond, the first measured is forgotten."""


class Form(NamedTuple):  # tuples, for they are built and looked up at every step
    """What requests of a like need of memory have in common; sizes in pixels and frames."""

    loop: str
    width: int
    height: int
    frames: int


def form_of(spec: LoopSpec, arguments: Arguments) -> Form:
    """The form of a request."""
    asked = arguments
    return Form(loop=spec.name, width=asked.width, height=asked.height, frames=asked.frames)


class Phase(NamedTuple):
    """A kind of work; `shapes` is all that decides what a step allocates, `batch` how many it computes."""

    name: str
    form: Form
    shapes: Hashable = ()
    batch: int = 1


def step_phase(form: Form, plan: StepPlan) -> Phase:
    """The phase of a planned step, be it of one request or of several as one."""
    shapes = tuple([(name, value.shape, value.dtype) for name, value in plan.inputs.items()])
    latent = plan.inputs.get("latent")
    batch = 1 if latent is None else latent.shape[0]
    return Phase(STEP, form, (plan.structure, shapes), batch)


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a phase took on the device.

    `activations_bytes` is the peak beside the components, `kept_bytes` what of it stayed for later phases,
    `components_bytes` the most that it used of components at once, `used` which.
    """

    activations_bytes: int
    kept_bytes: int
    components_bytes: int
    used: frozenset[Part]

    @property
    def together_bytes(self) -> int:
        """Components and activations."""
        return self.activations_bytes + self.components_bytes


class Peaks:
    """The needs of one card's phases; changed under the device's turn, read by anyone."""

    def __init__(self) -> None:
        self._needs: OrderedDict[Form, dict[Phase, Need]] = OrderedDict()

    def of(self, phase: Phase) -> Need | None:
        """What a phase took when it was measured."""
        return self._needs.get(phase.form, {}).get(phase)

    def of_form(self, form: Form) -> tuple[Need, ...]:
        """The needs of those phases of a form that were measured."""
        return tuple(dict(self._needs.get(form, {})).values())

    def knows(self, form: Form) -> bool:
        """Whether a request of the form was measured to its end."""
        return any(phase.name == DECODE for phase in list(self._needs.get(form, {})))

    def of_loop(self, loop: str) -> tuple[Need, ...]:
        """The needs of all phases of a loop that were measured, whatever their form."""
        forms = [dict(needs) for form, needs in list(self._needs.items()) if form.loop == loop]
        return tuple(need for needs in forms for need in needs.values())

    def forget(self, phase: Phase) -> None:
        """Measure it again at its next time."""
        self._needs.get(phase.form, {}).pop(phase, None)

    def remember(self, phase: Phase, need: Need) -> None:
        """Keep what was measured."""
        self._needs.setdefault(phase.form, {})[phase] = need
        self._needs.move_to_end(phase.form)
        while len(self._needs) > _FORMS:
            self._needs.popitem(last=False)

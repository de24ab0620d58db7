"""Admission: a request begins when what it will need on its device is sure to fit, and reserves it before.

It decides by what was measured of requests of the same form, else by the sizes of weight files; it loads and
runs nothing, and a request that waits is not changed by it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from restrike.cards.card import LoopSpec
from restrike.engine.memory.peaks import form_of
from restrike.engine.memory.residency import REMEDY, Residency
from restrike.engine.memory.sizes import shown
from restrike.errors import Shortfall

if TYPE_CHECKING:
    from restrike.engine.resident import ResidentCard
    from restrike.engine.scheduling.gates import Ask

STATE = "state of running requests"


@dataclass(frozen=True, kw_only=True, eq=False)
class Claim:
    """What one request needs of its device.

    `phase_bytes` is the most that a phase takes, components and activations; `components_bytes` the most
    components at once; `kept_bytes` what it holds between its steps. `least_bytes` is what it cannot do
    without: less than the others as long as they are guesses.
    """

    resident: ResidentCard
    components_bytes: int
    phase_bytes: int
    kept_bytes: int
    least_bytes: int


def claim_of(resident: ResidentCard, ask: Ask) -> Claim:
    """What a request needs: measured, if one of its form ran here to its end, else guessed from files."""
    form, is_whole = form_of(ask.spec, ask.arguments), ask.spec.opaque
    sizes = [part.size_bytes for part in resident.parts(*ask.spec.components)]
    all_bytes, largest_bytes = sum(sizes), max(sizes, default=0)
    needs, seen = resident.peaks.of_form(form), resident.peaks.of_loop(form.loop)
    activations_bytes = max((need.activations_bytes for need in needs), default=0)
    if is_whole:
        components_bytes, phase_bytes = all_bytes, all_bytes + activations_bytes
    else:
        components_bytes = max((need.components_bytes for need in seen), default=all_bytes)
        phase_bytes = max((need.together_bytes for need in needs), default=0)
    least_bytes = max(phase_bytes, largest_bytes)
    if not resident.peaks.knows(form):
        # Beside others, room for activations as large as the largest component.
        phase_bytes = max(phase_bytes, components_bytes + largest_bytes)
    return Claim(
        resident=resident,
        components_bytes=components_bytes,
        phase_bytes=phase_bytes,
        kept_bytes=max((need.kept_bytes for need in needs), default=0),
        least_bytes=least_bytes,
    )


class AdmissionGate:
    """The gate of an engine that keeps its devices from being promised more memory than they have."""

    def __init__(self) -> None:
        self._inside: dict[Residency, list[Claim]] = {}

    def enter(self, ask: Ask) -> Callable[[], None] | None:
        """Let the request in and return what lets it out again; None while others hold what it needs.

        Raises:
            Shortfall: it needs more than the device may ever give.
        """
        resident, residency = ask.resident, ask.resident.residency
        claim = claim_of(resident, ask)
        self._refuse_what_never_fits(claim, ask)
        inside = self._inside.setdefault(residency, [])
        together = [*inside, claim]
        if (
            inside
            and _together(together) + _elsewhere(residency, together) > residency.budget.limit.size_bytes
        ):
            return None
        with ExitStack() as taken:
            inside.append(claim)
            taken.callback(inside.remove, claim)
            if ask.spec.opaque:
                taken.callback(residency.hold(resident.parts(*ask.spec.components)))
            taken.callback(residency.budget.claim(STATE, claim.kept_bytes).release)
            taken.callback(resident.begun())
            return taken.pop_all().close

    def line(self, ask: Ask) -> Hashable:
        """A device's own: a large request on it is not overtaken by small ones without end."""
        return ask.resident.residency

    def waiting_for(self, ask: Ask) -> str:
        """How much memory it needs, and who has it."""
        residency = ask.resident.residency
        needed = shown(claim_of(ask.resident, ask).phase_bytes)
        others = len(self._inside.get(residency, ()))
        limit = residency.budget.limit
        return f"{needed} of the {limit} on {residency.device}, which {others} running request(s) share"

    def _refuse_what_never_fits(self, claim: Claim, ask: Ask) -> None:
        limit = ask.resident.residency.budget.limit
        needed_bytes = claim.least_bytes + claim.kept_bytes
        if needed_bytes > limit.size_bytes:
            raise Shortfall(
                f"card '{ask.resident.card.name}' needs {shown(needed_bytes)} at once on "
                f"{ask.resident.device} for this request ({_what(ask.spec)} {shown(claim.components_bytes)}) "
                f"and may use {limit}; {REMEDY}"
            )


def _what(spec: LoopSpec) -> str:
    return "the whole pipeline" if spec.opaque else "components"


def _together(claims: Iterable[Claim]) -> int:
    """What requests need side by side: one computes at a time, while the others keep state and components.

    Requests of one card share its components.
    """
    found = list(claims)
    cards: dict[ResidentCard, int] = {}
    for claim in found:
        cards[claim.resident] = max(cards.get(claim.resident, 0), claim.components_bytes)
    idle = sum(cards.values())
    computing = max(max(claim.phase_bytes - cards[claim.resident], 0) for claim in found)
    return idle + computing + sum(claim.kept_bytes for claim in found)


def _elsewhere(residency: Residency, claims: Iterable[Claim]) -> int:
    """What is set aside for other things than requests, and what cannot leave of cards that none uses."""
    residents = {claim.resident for claim in claims}
    theirs = {part for resident in residents for part in resident.parts()}
    staying = sum(part.size_bytes for part in residency.staying() if part not in theirs)
    return staying + sum(size for what, size in residency.budget.reserved().items() if what != STATE)

"""What comes before compiling: the card, its targets, its plan, the machine, its options; then the weights.

Every precondition is checked here, in one order, for both recipes and for every process of a mint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from restrike.cards.card import ModelCard
from restrike.cards.compile import CompileTarget
from restrike.cards.identity import weights_of
from restrike.cards.request import resolve
from restrike.endpoints.warm import WarmRow
from restrike.mint import targets as authority
from restrike.mint.cell.signing import Signer
from restrike.mint.plan import warm_plan
from restrike.mint.refusals import NothingDeclared, Subject, WeightsChanged
from restrike.mint.request import MintRequest
from restrike.mint.store.store import CellStore

if TYPE_CHECKING:
    from restrike.engine.resident import ResidentCard
    from restrike.mint.recipes.options import Value
    from restrike.mint.warm import Observed


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A request that may be worked on, its card resident."""

    resident: ResidentCard
    subject: Subject
    targets: tuple[CompileTarget, ...]
    rows: tuple[WarmRow, ...]
    options: dict[str, Value]
    tolerance: float

    def components(self) -> tuple[str, ...]:
        """The targets and their declared siblings: all that the loops of the plan cannot do without."""
        card = self.resident.card
        loops = {resolve(card, row.request)[0].name for row in self.rows}
        read = dict.fromkeys(name for loop in card.loops if loop.name in loops for name in loop.components)
        return tuple(name for name in read if not card.component(name).optional)

    def observe(self) -> tuple[Observed, ...]:
        """Run the warm plan once, eagerly; see `warm.observe`."""
        from restrike.mint.warm import observe

        return observe(self.resident, self.rows, self.targets, self.subject)


def prepare(request: MintRequest) -> Ready:
    """Check all that can be checked without weights, then load the card.

    Raises:
        NothingDeclared, NoSuchTarget, EmptyPlan, DroppedOption: the card cannot be minted so.
        CannotArm: this process cannot.
        Unknown, NotFound, InvalidCard, Refused: there is no such card, shape class or precision.
        WeightsChanged: the weights are not those of the request.
    """
    card = request.card()
    targets = authority.resolve_targets(card, request.recipe, request.targets)
    subject = replace(request.subject, targets=tuple(target.component for target in targets))
    declared = card.compile
    if declared is None:
        raise NothingDeclared(subject)
    rows = warm_plan(card, subject, request.shapes)
    authority.require_armable(subject, request.target, compiles=True)
    _signer(request)
    _same_weights(card, request, subject)
    # What needs no torch has been checked by now: importing it takes longer than all of that.
    from restrike.engine.engine import Engine
    from restrike.mint.recipes.options import options_of

    options = options_of(request.recipe, request.target, declared.options, subject)
    resident = Engine(device=request.target.kind, precision=request.precision).load(card)
    return Ready(
        resident=resident,
        subject=subject,
        targets=targets,
        rows=rows,
        options=options,
        tolerance=declared.tolerance_in(resident.placement.dtype),
    )


def _signer(request: MintRequest) -> None:
    """Raise Unknown or Refused now, and not after compiling, when the cells could not be signed."""
    if not request.keys_only:
        signer_of(request)


def signer_of(request: MintRequest) -> Signer:
    """The key that signs what the request makes; the store's own is made when it is first needed."""
    ring = CellStore(Path(request.store)).ring
    return ring.signer(request.sign) if request.sign else ring.signer()


def _same_weights(card: ModelCard, request: MintRequest, subject: Subject) -> None:
    known = request.slot.weights
    if known is not None and weights_of(card) != known:
        raise WeightsChanged(
            subject,
            "its weights are not those that were asked for",
            "ask again, for the weights as they are now",
        )

"""Why a mint cannot be, as sentences that name card, target, recipe, reason and remedy.

One class for each kind of reason; none is for a fact that another try could change.
"""

from __future__ import annotations

from dataclasses import dataclass

from restrike.errors import Refused
from restrike.mint.cell.facts import Recipe


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What was to be compiled: a card, the targets meant, and the recipe. No target means all of the card."""

    card: str
    recipe: Recipe
    targets: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = " and ".join(f"'{name}'" for name in self.targets) or "all"
        return f"card '{self.card}', target {named}, recipe {self.recipe}"


class MintRefused(Refused):
    """Something cannot be compiled as it stands."""

    def __init__(self, subject: Subject, reason: str, remedy: str) -> None:
        self.subject, self.reason, self.remedy = subject, reason, remedy
        super().__init__(f"{subject}: {reason}; {remedy}")


class NothingDeclared(MintRefused):
    """The card says nothing of compiling."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(
            subject,
            "the card declares nothing to compile",
            "give it a `compile` declaration, or run it eager",
        )


class EmptyPlan(MintRefused):
    """No shape class is left to warm."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject, "its warm plan is empty", "declare at least one shape class")


class NoSuchTarget(MintRefused):
    """The card has no such target; no machine could compile it."""


class CannotArm(MintRefused):
    """The target exists, and this process cannot compile or run it."""


class WarmForwardFailed(MintRefused):
    """The card's own forward dies, so there is nothing right to compile."""


class UndeclaredIngress(MintRefused):
    """The forward was called with other tensors than the card declares."""


class NotExportable(MintRefused):
    """The call cannot be written down as one graph."""


class NarrowedRange(MintRefused):
    """The graph holds for fewer sizes than were declared."""


class DroppedOption(MintRefused):
    """An option of the compiler would have no effect."""


class OutOfTolerance(MintRefused):
    """The compiled call differs from eager by more than the card allows."""


class EnvironmentChanged(MintRefused):
    """A variable that the compiler reads changed while it worked."""


class WeightsChanged(MintRefused):
    """The weights are not those that the request was written for."""

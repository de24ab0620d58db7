"""Why a cell that was found is not armed: one name for each reason, beside those of `CellRefusal`."""

from __future__ import annotations

from enum import StrEnum

from restrike.errors import Refused


class AdoptionRefusal(StrEnum):
    """The reason, as it is counted and written down."""

    NO_CELL = "no cell"
    ANOTHER_CALL = "cell of another call"
    SET_ASIDE = "was set aside before"
    DIED_WHEN_TRIED = "died when it was tried"
    FAILED_WHEN_TRIED = "failed when it was tried"
    NOT_TRIED = "could not be tried"
    MADE_ELSEWHERE = "made on another machine"
    OTHER_INGRESS = "other ingress"
    MISSING_CONSTANT = "missing constant"
    EXTRA_CONSTANT = "extra constant"
    OTHER_CONSTANT = "other constant"
    OUT_OF_TOLERANCE = "out of tolerance"
    COMPILED_ANEW = "compiled anew"
    NOT_FASTER = "not faster than eager"
    CODE_AROUND = "code of its own runs around the module"
    FORWARD_DIES = "its own forward dies"
    NO_ROOM = "no room"
    UNREACHABLE = "the second tier is out of reach"
    FAILED = "failed when it was adopted"


QUARANTINED = frozenset(
    [
        AdoptionRefusal.DIED_WHEN_TRIED,
        AdoptionRefusal.FAILED_WHEN_TRIED,
        AdoptionRefusal.EXTRA_CONSTANT,
        AdoptionRefusal.OUT_OF_TOLERANCE,
        AdoptionRefusal.FAILED,
    ]
)
"""What is the cell's own fault: it is set aside, so that it is not tried again and another can be minted."""


class AdoptionRefused(Refused):
    """A cell is not armed."""

    def __init__(self, reason: AdoptionRefusal, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"cell not armed, {reason}: {detail}")

    def __reduce__(self) -> tuple[type[AdoptionRefused], tuple[AdoptionRefusal, str]]:
        return AdoptionRefused, (self.reason, self.detail)

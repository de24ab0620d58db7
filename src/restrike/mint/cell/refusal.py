"""Why a cell is not loaded: one name for each reason. All are found before any code of the cell is loaded."""

from __future__ import annotations

from enum import StrEnum

from restrike.errors import Refused


class CellRefusal(StrEnum):
    """The reason, as it is counted and written down."""

    NO_HEADER = "no header"
    UNKNOWN_FORMAT = "unknown format"
    TRUNCATED = "truncated"
    TRAILING_BYTES = "trailing bytes"
    FLIPPED_BYTES = "flipped bytes"
    SWAPPED_MEMBERS = "swapped members"
    HEADER_OF_ANOTHER = "header of another cell"
    WRONG_KEY = "wrong key"
    UNSIGNED = "unsigned"
    UNTRUSTED_KEY = "untrusted key"
    REVOKED_KEY = "revoked key"
    WRONG_SIGNATURE = "wrong signature"
    FOREIGN_ARCHITECTURE = "foreign architecture"
    NEWER_CAPABILITY = "newer CPU capability"
    OTHER_TORCH = "other torch version"
    OTHER_STACK = "other compile stack"
    LIBRARY_FLOOR = "library floor"
    WEIGHTS_INSIDE = "weights inside"
    MALFORMED = "malformed"
    UNPROVED = "unproved"


class CellRefused(Refused):
    """A cell is not loaded."""

    def __init__(self, reason: CellRefusal, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"cell refused, {reason}: {detail}")

    def __reduce__(self) -> tuple[type[CellRefused], tuple[CellRefusal, str]]:
        return CellRefused, (self.reason, self.detail)

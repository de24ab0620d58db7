"""Who finds compiled calls for a loaded card and arms them. The engine asks, and knows no more of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from restrike.engine.resident import ResidentCard


class Adopter(Protocol):
    """Arms the calls of cards; may go on doing so from another thread."""

    def adopt(self, resident: ResidentCard) -> None:
        """Arm what can be armed; called once for each card, when it is loaded.

        Raises:
            Refused: the card must run compiled, and cannot.
        """
        ...

    def close(self) -> None:
        """End what goes on in the background; what is armed stays armed."""
        ...

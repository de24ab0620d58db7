"""Slots and what fills them: a card for each, found from outside, and the view of it that a request gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.cards.request_options import request_of
from restrike.endpoints.declaration import Slot
from restrike.errors import NotFound, Refused, Unknown

if TYPE_CHECKING:
    from restrike.engine.result import Generation

Cards = Mapping[str, ModelCard]


class Slotted(Protocol):
    """What has slots: an endpoint, or what is known of one that was looked at elsewhere."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def slots(self) -> Mapping[str, Slot]:
        """Its slots by name."""
        ...


class UnfilledSlot(Refused):
    """A slot has no model."""

    def __init__(self, endpoint: str, slot: str) -> None:
        self.slot = slot
        super().__init__(
            f"slot '{slot}' of endpoint '{endpoint}' has no model; fill it with a card, a checkpoint folder "
            f"or a hub id: --slot {slot}=CARD"
        )


@dataclass(frozen=True)
class SlotModel:
    """A request's own view of the model in a slot: it makes pictures, and holds nothing that others share.

    The modules and weights behind it are the engine's, for all requests, and cannot be had through it.
    """

    card: ModelCard
    make: Callable[[ModelCard, Request], Generation] = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)

    def using(self, **options: Any) -> SlotModel:
        """A view with these options for all that it makes, such as `solver="unipc"`; this one stays."""
        return replace(self, options={**self.options, **options})

    def generate(self, prompt: str, **options: Any) -> Generation:
        """Make the pictures of a prompt; the options are those of `restrike.Model.generate`.

        The seed is the request's own unless another is given.

        Raises:
            Refused, Unknown: the card cannot serve it.
            Cancelled: the request was cancelled; it stops at the next step.
        """
        return self.make(self.card, request_of(prompt, {**self.options, **options}))


def fill(endpoint: Slotted, given: Mapping[str, str | ModelCard]) -> Cards:
    """The card of each slot, looked up by what is given for it, or by its default; loads no weights.

    Raises:
        UnfilledSlot: nothing is given for one.
        Unknown: there is no such slot, or no such card.
        NotFound, Refused: a card cannot be had, or does not serve what the slot is for.
    """
    for name in given:
        if name not in endpoint.slots:
            raise Unknown(f"slot of endpoint '{endpoint.name}'", name, endpoint.slots)
    return {name: _card(endpoint, name, slot, given.get(name)) for name, slot in endpoint.slots.items()}


def _card(endpoint: Slotted, name: str, slot: Slot, given: str | ModelCard | None) -> ModelCard:
    wanted = given or slot.default
    if not wanted:
        raise UnfilledSlot(endpoint.name, name)
    try:
        card = registry.fitted(registry.find(wanted) if isinstance(wanted, str) else wanted)
    except Refused as error:
        kind = NotFound if isinstance(error, NotFound) else Refused
        raise kind(f"slot '{name}' of endpoint '{endpoint.name}': {error.message}") from error
    missing = [task for task in slot.tasks if task not in card.tasks()]
    if missing:
        offered = ", ".join(card.tasks())
        raise Refused(
            f"slot '{name}' is for {missing[0]}, which card '{card.name}' does not do; it does {offered}"
        )
    return card

"""The warm plan: the payloads that an endpoint is compiled for, and the calls that its handlers make of them.

The one authority on what is warmed; it compiles nothing and loads no weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from restrike.cards.card import ModelCard
from restrike.cards.compile import ShapeClass
from restrike.cards.request import Arguments, Request
from restrike.endpoints.checking import InvalidEndpoint
from restrike.endpoints.declaration import Endpoint, Handler
from restrike.endpoints.payloads import PayloadType, payload_type
from restrike.endpoints.rehearsal import Rehearsal, SlotCall
from restrike.endpoints.slots import Cards

# Enough for every expert of a checkpoint to get a step.
_STEPS = 4


@dataclass(frozen=True, kw_only=True)
class PayloadRow:
    """One payload of the plan: the handler that takes it, and the values that it is made of."""

    handler: Handler
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """How a person names it: `poster frames=17, width=64`."""
        values = ", ".join(f"{name}={_shown(value)}" for name, value in self.values.items())
        return f"{self.handler.name} {values}"


@dataclass(frozen=True, kw_only=True)
class WarmRow:
    """One row of a card's plan: a shape class and the request that shows it."""

    shape: ShapeClass
    request: Request


def payload_rows(endpoint: Endpoint) -> tuple[PayloadRow, ...]:
    """The payloads of the plan, first needed first; none when the endpoint compiles nothing.

    Raises:
        InvalidEndpoint: a field that a payload must have is neither marked nor has an example.
        InvalidPayload: a value that it is marked with does not fit it.
    """
    if endpoint.compiled is None:
        return ()
    return tuple(row for handler in endpoint.handlers.values() for row in _rows(endpoint, handler))


def warm_rows(endpoint: Endpoint, cards: Cards) -> tuple[WarmRow, ...]:
    """The rows for the card in the slot that is compiled: each distinct shape class that its handlers call.

    `endpoint` is one that was loaded to run. Raises as `payload_rows`, and what its handlers raise.
    """
    slot = endpoint.compiled_slot
    if slot is None:
        return ()
    rehearsal, found = Rehearsal(endpoint, cards), dict[ShapeClass, WarmRow]()
    for row in payload_rows(endpoint):
        payload = payload_type(row.handler).read(row.values)
        for call in rehearsal.calls_of(row.handler, payload):
            if call.slot == slot:
                for shape in _shapes(cards[slot], call.arguments):
                    found.setdefault(shape, WarmRow(shape=shape, request=_short(cards[slot], call)))
    return tuple(found.values())


def planned_card(endpoint: Endpoint, cards: Cards) -> ModelCard | None:
    """The card in the slot that is compiled, declaring what this endpoint makes of it; None when none is.

    Its targets are those that the endpoint names, its shape classes those of the endpoint's plan. Raises as
    `warm_rows`.
    """
    slot = endpoint.compiled_slot
    if endpoint.compiled is None or slot is None:
        return None
    card, names = cards[slot], endpoint.compiled.targets
    if card.compile is None:
        return card
    targets = tuple(target for target in card.compile.targets if target.component in names)
    shapes = tuple(row.shape for row in warm_rows(endpoint, cards))
    return replace(
        card, compile=replace(card.compile, targets=targets or card.compile.targets, shapes=shapes)
    )


def _rows(endpoint: Endpoint, handler: Handler) -> Iterator[PayloadRow]:
    taken = payload_type(handler)
    compiled = endpoint.compiled
    assert compiled is not None
    names = {each.name for each in taken.fields()}
    given = None if compiled.rows is None else (row for row in compiled.rows if names >= {*row})
    for values in _combinations(endpoint, handler, taken) if given is None else given:
        if not any(_matches(values, excluded) for excluded in compiled.excluding):
            taken.read(values)
            yield PayloadRow(handler=handler, values=values)


def _combinations(endpoint: Endpoint, handler: Handler, taken: PayloadType) -> Iterator[dict[str, Any]]:
    fields = taken.fields()
    without = [field.name for field in fields if field.varies is None and not field.has_usual]
    if without:
        fault = (
            f"handler '{handler.name}': payload field '{without[0]}' has no value to compile for; "
            f"mark it, Annotated[..., Varies(...)], or give it an example"
        )
        raise InvalidEndpoint(endpoint.name, (fault,))
    choices = [(field.usual,) if field.varies is None else field.varies for field in fields]
    for values in product(*choices):
        yield {field.name: value for field, value in zip(fields, values, strict=True)}


def _matches(values: Mapping[str, Any], excluded: Mapping[str, Any]) -> bool:
    return all(name in values and values[name] == value for name, value in excluded.items())


def _shapes(card: ModelCard, asked: Arguments) -> tuple[ShapeClass, ...]:
    """The shape classes that the card declares for such a call; else one like its first, of these sizes."""
    wanted = {
        "width": asked.width,
        "height": asked.height,
        "frames": asked.frames,
        "guidance": asked.guidance_mode,
        "from_image": asked.image is not None,
    }
    declared = card.compile.shapes if card.compile else ()
    fitting = tuple(shape for shape in declared if all(getattr(shape, n) == v for n, v in wanted.items()))
    return fitting or tuple(replace(shape, batch=1, **wanted) for shape in declared[:1])


def _short(card: ModelCard, call: SlotCall) -> Request:
    """The call in as few steps as show all of it, of its first picture, with the card's own weights."""
    least, most = card.recipe.steps
    steps = None if call.request.sigmas is not None else max(least, min(most, _STEPS))
    return replace(call.request, seed=0, steps=steps, items=call.request.items[:1], adapters=())


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, bool | int | float | str | None) else f"<{type(value).__name__}>"

"""What is wrong with a declared endpoint, all of it at once. Fills no slot and runs no handler."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

from restrike.cards.card import Task
from restrike.endpoints.declaration import Compiled, Endpoint, Handler, Resources, Slot
from restrike.endpoints.payloads import answer_schema, payload_type
from restrike.errors import Refused


class InvalidEndpoint(Refused):
    """An endpoint contradicts itself."""

    def __init__(self, name: str, faults: tuple[str, ...]) -> None:
        self.faults = faults
        super().__init__(f"endpoint '{name}' has {len(faults)} fault(s): {'; '.join(faults)}")


def check(endpoint: Endpoint) -> None:
    """Raise InvalidEndpoint with every fault of the declaration."""
    faults = tuple(faults_of(endpoint))
    if faults:
        raise InvalidEndpoint(endpoint.name, faults)


def faults_of(endpoint: Endpoint) -> Iterator[str]:
    """Each fault, as one clause."""
    yield from _slots(endpoint.slots)
    yield from _resources(endpoint.resources)
    if not endpoint.handlers:
        yield "it has no handler: a public method (self, ctx, payload)"
    for handler in endpoint.handlers.values():
        yield from (f"handler '{handler.name}' {fault}" for fault in _handler(handler))
    if endpoint.compiled is not None:
        yield from _compiled(endpoint, endpoint.compiled)


def _slots(slots: Mapping[str, Slot]) -> Iterator[str]:
    tasks = [str(task) for task in Task]
    for name, slot in slots.items():
        if not isinstance(slot, Slot):
            yield f"slot '{name}' is a {type(slot).__name__}, write Slot(...)"
            continue
        if not name.isidentifier():
            yield f"slot '{name}' is not an identifier"
        for task in slot.tasks:
            if task not in tasks:
                yield f"slot '{name}': task '{task}' is none of {', '.join(tasks)}"


def _resources(resources: Resources) -> Iterator[str]:
    if not isinstance(resources, Resources):
        yield f"resources is a {type(resources).__name__}, write Resources(...)"
        return
    for name, value in vars(resources).items():
        if not isinstance(value, int) or value < 0:
            yield f"resources.{name} {value!r} is not a whole number from 0"
    if resources.gpu_memory_bytes and not resources.gpus:
        yield "resources.gpu_memory_bytes is said and gpus is 0"


def _handler(handler: Handler) -> Iterator[str]:
    if inspect.iscoroutinefunction(handler.function) or inspect.isgeneratorfunction(handler.function):
        yield "is no plain function that returns its answer"
    try:
        taken = payload_type(handler)
        taken.schema()
        yield from (f"marks '{each.name}' with no values" for each in taken.fields() if each.varies == ())
        answer_schema(handler)
    except TypeError as error:
        yield str(error)
    except NameError as error:
        yield f"names a type that its file does not: {error}"
    except Exception as error:  # pydantic's own, of which it has many, for a type that has no schema
        yield f"has a type without a JSON schema: {str(error).partition(chr(10))[0]}"


def _compiled(endpoint: Endpoint, compiled: Compiled) -> Iterator[str]:
    if not isinstance(compiled, Compiled):
        yield f"compile is a {type(compiled).__name__}, write Compiled(...)"
        return
    slot = endpoint.compiled_slot
    if slot is None:
        yield f"compile names no slot, and there are {len(endpoint.slots)}"
    elif slot not in endpoint.slots:
        yield f"compile names slot '{slot}', declared are {', '.join(endpoint.slots) or 'none'}"
    fields = set()
    for handler in endpoint.handlers.values():
        try:
            fields |= {field.name for field in payload_type(handler).fields()}
        except Exception:  # told of the handler already
            return
    for part in ("excluding", "rows"):
        for entry in getattr(compiled, part) or ():
            odd = [name for name in entry if name not in fields]
            if odd or not entry:
                named = f"'{odd[0]}', which is no field" if odd else "no field"
                yield f"compile.{part} names {named}; a payload has {', '.join(sorted(fields))}"

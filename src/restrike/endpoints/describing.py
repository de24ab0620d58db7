"""An endpoint as plain values: what is listed, and what a lock holds. The same on every machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from restrike.endpoints.declaration import Endpoint
from restrike.endpoints.payloads import answer_schema, payload_type
from restrike.endpoints.warm import payload_rows


def described(endpoint: Endpoint) -> dict[str, Any]:
    """Its handlers with the schemas of payload and answer, its slots, resources, and what it compiles."""
    return {
        "summary": endpoint.summary,
        "handlers": {
            name: {"request": payload_type(handler).schema(), "response": answer_schema(handler)}
            for name, handler in endpoint.handlers.items()
        },
        "slots": {
            name: {"tasks": [str(task) for task in slot.tasks], "default": slot.default}
            for name, slot in endpoint.slots.items()
        },
        "resources": asdict(endpoint.resources),
        "compile": _compiled(endpoint),
    }


def _compiled(endpoint: Endpoint) -> dict[str, Any] | None:
    if endpoint.compiled is None:
        return None
    return {
        "slot": endpoint.compiled_slot,
        "targets": list(endpoint.compiled.targets),
        "rows": [row.name for row in payload_rows(endpoint)],
    }

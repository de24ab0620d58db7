"""A call of a server's endpoint as `restrike submit --endpoint` asks for it. It sends nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restrike.cli.endpoints import slots_of, text_of
from restrike.errors import Refused

if TYPE_CHECKING:
    from restrike.client.asked import Call

_PANEL = "An endpoint"


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """The options of a call."""

    endpoint: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Call this endpoint of the server.", rich_help_panel=_PANEL),
    ] = None
    payload: Annotated[
        str | None,
        typer.Option(metavar="JSON|@FILE", help="What its handler is given.", rich_help_panel=_PANEL),
    ] = None
    handler: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Which handler; needed when there are several.", rich_help_panel=_PANEL
        ),
    ] = None
    slot: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=CARD",
            help="The model in a slot, in place of the server's; repeatable.",
            rich_help_panel=_PANEL,
        ),
    ] = field(default_factory=list)


def call_of(options: CallOptions, endpoint: str, *, seed: int | None, trusted: bool) -> Call:
    """The call; raises Refused for a payload that is no JSON object."""
    from restrike.client.asked import Call

    return Call(
        endpoint=endpoint,
        payload=_payload(options.payload),
        handler=options.handler,
        seed=seed,
        slots=slots_of(options.slot),
        trusted=trusted,
    )


def _payload(given: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text_of(given or "{}"))
    except ValueError as error:
        raise Refused(f"--payload is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise Refused('--payload is a JSON object, such as {"prompt": "a seven"}')
    return found

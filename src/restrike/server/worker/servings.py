"""The endpoints that a worker has loaded, each with its models in its slots. It takes no job."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from restrike.cards import registry
from restrike.endpoints.builtin import SLOT, endpoint_of
from restrike.endpoints.declaration import Endpoint
from restrike.endpoints.discovery import load
from restrike.endpoints.finding import Filled
from restrike.endpoints.places import Place, find_place
from restrike.endpoints.serving import Serving
from restrike.endpoints.slots import fill
from restrike.errors import NotFound, Refused, Unknown
from restrike.server.endpoints.origin import Origin

if TYPE_CHECKING:
    from restrike.engine.engine import Engine


@dataclass(frozen=True, kw_only=True)
class _Open:
    slots: Mapping[str, str]
    serving: Serving


@dataclass(kw_only=True)
class Servings:
    """One serving for each endpoint that was called, with the slots of its last call.

    `compiles` says whether cells may answer the calls that an endpoint is compiled for.
    """

    origins: Sequence[Origin]
    engine: Callable[[], Engine]
    compiles: bool
    _endpoints: dict[str, Endpoint] = field(default_factory=dict, init=False)
    _open: dict[str, _Open] = field(default_factory=dict, init=False)

    def serving(self, name: str, slots: Mapping[str, str]) -> Serving:
        """The serving of an endpoint with these models in its slots, else the server's own.

        Raises:
            Unknown: no such endpoint is served.
            Refused: its code is not what the server looked at, a slot is not filled, or this machine lacks
                something.
            Crashed: its file fails on import.
        """
        found = self._open.get(name)
        if found is not None and found.slots == slots:
            return found.serving
        self._close(name)
        filled = self._filled(name, slots)
        filled = filled.as_compiled() if self.compiles else filled
        serving = Serving(filled.endpoint, filled.cards, self.engine())
        self._open[name] = _Open(slots=dict(slots), serving=serving)
        return serving

    def close(self) -> None:
        """Let all of them shut down."""
        for name in list(self._open):
            self._close(name)

    def _close(self, name: str) -> None:
        found = self._open.pop(name, None)
        if found is None:
            return
        try:
            found.serving.close()
        except Exception:  # its own shutdown, which is no concern of the next call
            traceback.print_exc(file=sys.stderr)

    def _filled(self, name: str, slots: Mapping[str, str]) -> Filled:
        origin = next((each for each in self.origins if each.name == name), None)
        if origin is not None:
            endpoint = self._endpoints.get(name) or self._loaded(origin)
            return Filled(endpoint=endpoint, cards=fill(endpoint, {**origin.slots, **slots}))
        if name not in registry.names():
            raise Unknown("endpoint", name, [each.name for each in self.origins])
        card = registry.fitted(registry.card(name))
        return Filled(endpoint=endpoint_of(card), cards={SLOT: card})

    def _loaded(self, origin: Origin) -> Endpoint:
        found = load(_place(origin))
        if found.source != origin.source:
            raise Refused(
                f"the code of endpoint '{origin.name}' changed since the server started; restart the server, "
                "and submit it again"
            )
        self._endpoints[origin.name] = found.meant()
        return self._endpoints[origin.name]


def _place(origin: Origin) -> Place:
    """Where the code is; who called it is not told where that was."""
    gone = NotFound(f"the code of endpoint '{origin.name}' is gone; restart the server")
    try:
        place = find_place(origin.place)
    except NotFound as error:
        raise gone from error
    if place is None:
        raise gone
    return place

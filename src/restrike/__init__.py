"""Restrike: a runtime for diffusion models that never computes the same thing twice.

What a program uses is found here by name and imported when it is first asked for: importing this package
loads neither torch nor any model.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from restrike.api import Model, load
    from restrike.cards.adapters import Adapter
    from restrike.cards.request import Request
    from restrike.client.async_client import AsyncClient
    from restrike.client.client import Client
    from restrike.endpoints.context import Context
    from restrike.endpoints.declaration import Compiled, Resources, Slot, Varies, endpoint
    from restrike.endpoints.payloads import Pixels
    from restrike.endpoints.saving import Saved
    from restrike.engine.engine import Engine
    from restrike.engine.requests import Cancellation
    from restrike.engine.result import Generation, Picture
    from restrike.errors import Cancelled, Crashed, NotFound, Refused, RestrikeError, Shortfall, Unknown
    from restrike.workflow.api import open_session, plan, run
    from restrike.workflow.session import Asked, Session, Watch

    __version__: str

__all__ = [
    "Adapter",
    "Asked",
    "AsyncClient",
    "Cancellation",
    "Cancelled",
    "Client",
    "Compiled",
    "Context",
    "Crashed",
    "Engine",
    "Generation",
    "Model",
    "NotFound",
    "Picture",
    "Pixels",
    "Refused",
    "Request",
    "Resources",
    "RestrikeError",
    "Saved",
    "Session",
    "Shortfall",
    "Slot",
    "Unknown",
    "Varies",
    "Watch",
    "__version__",
    "endpoint",
    "load",
    "open_session",
    "plan",
    "run",
]

_MODULES = {
    "restrike.api": ("Model", "load"),
    "restrike.cards.adapters": ("Adapter",),
    "restrike.cards.request": ("Request",),
    "restrike.client.async_client": ("AsyncClient",),
    "restrike.client.client": ("Client",),
    "restrike.endpoints.context": ("Context",),
    "restrike.endpoints.declaration": ("Compiled", "Resources", "Slot", "Varies", "endpoint"),
    "restrike.endpoints.payloads": ("Pixels",),
    "restrike.endpoints.saving": ("Saved",),
    "restrike.engine.engine": ("Engine",),
    "restrike.engine.requests": ("Cancellation",),
    "restrike.engine.result": ("Generation", "Picture"),
    "restrike.errors": (
        "Cancelled",
        "Crashed",
        "NotFound",
        "Refused",
        "RestrikeError",
        "Shortfall",
        "Unknown",
    ),
    "restrike.workflow.api": ("open_session", "plan", "run"),
    "restrike.workflow.session": ("Asked", "Session", "Watch"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("restrike")
    if name not in _HOMES:
        raise AttributeError(f"module 'restrike' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def home_of(name: str) -> str | None:
    """The module in which a public name is defined; importing it is what the name costs when first used."""
    return _HOMES.get(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""What routes ask of a request: the service, who asks, the workspace; and heavy work off the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import anyio.to_thread
from fastapi import Depends, Query, Request

from restrike.server.place import DEFAULT_WORKSPACE
from restrike.server.problems import Rejected
from restrike.server.security.tokens import Grant, Scope
from restrike.server.service import Service

T = TypeVar("T")


def service_of(request: Request) -> Service:
    """The server's service."""
    return request.app.state.service


def grant_of(request: Request) -> Grant:
    """Who asks."""
    return request.state.grant


TheService = Annotated[Service, Depends(service_of)]
TheGrant = Annotated[Grant, Depends(grant_of)]
Workspace = Annotated[
    str, Query(max_length=80, description="The workspace; each has its own assets, runs and results.")
]
Limit = Annotated[int, Query(ge=1, le=500, description="At most so many.")]
HERE = DEFAULT_WORKSPACE


def may_be_trusted(grant: Grant) -> bool:
    """Whether requests of this asker may name folders of the server."""
    return Scope.ADMIN in grant.scopes


def check_trust(trusted: bool, grant: Grant) -> None:
    """Refuse to trust a request of someone who is not."""
    if trusted and not may_be_trusted(grant):
        raise Rejected(403, f"`trusted` needs a token with the scope '{Scope.ADMIN}'")


async def heavy(service: Service, work: Callable[[], T]) -> T:
    """Do work that reads files or computes on one of a few threads."""
    return await anyio.to_thread.run_sync(work, limiter=service.heavy)

"""An agent at the server that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client

from server.mcp.agent import Agent
from serving import Server


@pytest.fixture(scope="session")
def agent(server: Server) -> Iterator[Agent]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(f"{server.url}/mcp")) as client,
    ):
        yield Agent(portal, client)

"""An agent at the server that all tests share."""

from __future__ import annotations

import pytest
from tests.server.mcp.agent import Agent

from serving import Server


@pytest.fixture
def agent(server: Server) -> Agent:
    return Agent(f"{server.url}/mcp")

"""The official client, against the server that all tests share."""

from __future__ import annotations

import pytest
from openai import OpenAI

from serving import Server


@pytest.fixture
def client(server: Server) -> OpenAI:
    return OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)

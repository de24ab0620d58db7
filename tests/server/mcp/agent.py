"""An agent of a test: it calls tools through the official client, and reads what they answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from anyio.from_thread import BlockingPortal
from mcp import Client
from mcp_types import CallToolResult, TextContent


@dataclass(frozen=True)
class Answer:
    """What a tool answered."""

    result: CallToolResult

    @property
    def failed(self) -> bool:
        return bool(self.result.is_error)

    @property
    def text(self) -> str:
        first = self.result.content[0]
        assert isinstance(first, TextContent)
        return first.text

    @property
    def tree(self) -> dict[str, Any]:
        return json.loads(self.text)

    @property
    def size_bytes(self) -> int:
        return len(self.result.model_dump_json())


@dataclass(frozen=True)
class Agent:
    """An agent in one session; any thread may call its tools."""

    portal: BlockingPortal
    client: Client

    def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool."""
        return Answer(self.portal.call(self.client.call_tool, tool, arguments))

    def made(self, **generation: Any) -> str:
        """The id of a job that has made what was asked for."""
        job = self.begun(**generation)
        assert self.call("wait", job=job, seconds=50).tree["state"] == "succeeded"
        return job

    def begun(self, **generation: Any) -> str:
        """The id of a job that was submitted as it should be: planned, and acknowledged."""
        work = {"generation": {"card": "digits", "prompt": "a seven", **generation}}
        fingerprint = self.call("plan", work=work).tree["fingerprint"]
        return self.call("run", work=work, acknowledge=fingerprint).tree["job"]

"""An agent of a test: it calls tools through the official client, and reads what they answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
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
    """Speaks with a server at a URL, or with a program that speaks for one. Each call is a session."""

    reached: str | StdioServerParameters

    def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool."""
        return anyio.run(self._call, tool, arguments)

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Answer:
        async with Client(self.reached) as client:
            return Answer(await client.call_tool(tool, arguments))

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

"""One whole session of an agent, over HTTP and over a program's standard input: the same server."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, ImageContent, TextContent

from serving import Server

TOOLS = {"find", "read", "validate", "plan", "run", "wait", "results", "explain", "cancel", "edit"}


def by_program(url: str) -> StdioServerParameters:
    words = ["-m", "restrike", "mcp", "--server", url]
    return StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))


def tree(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result
    assert isinstance(result.content[0], TextContent)
    return json.loads(result.content[0].text)


async def session(reached: str | StdioServerParameters) -> list[str]:
    """Find a card, plan, run, wait, look at the results; the digests of the pictures."""
    async with Client(reached) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        assert client.instructions is not None
        assert "fingerprint" in client.instructions
        (card,) = tree(await client.call_tool("find", {"kind": "cards", "text": "digits"}))["cards"]
        work = {"generation": {"card": card["name"], "prompt": "a four", "seed": 41, "n": 2}}
        plan = tree(await client.call_tool("plan", {"work": work}))
        begun = tree(await client.call_tool("run", {"work": work, "acknowledge": plan["fingerprint"]}))
        assert next(iter(begun)) == "job"
        ended = tree(await client.call_tool("wait", {"job": begun["job"], "seconds": 50}))
        assert (ended["job"], ended["state"]) == (begun["job"], "succeeded")
        found = await client.call_tool("results", {"job": begun["job"]})
        listed = tree(found)["files"]
        shown = [each for each in found.content if isinstance(each, ImageContent)]
        digests = [hashlib.sha256(base64.b64decode(each.data)).hexdigest() for each in shown]
        assert digests == [file["sha256"] for file in listed]
        (step,) = tree(await client.call_tool("explain", {"job": begun["job"]}))["steps"]
        assert step["status"] in ("computed", "reused")
        return digests


def test_a_session_is_the_same_over_http_and_stdio(server: Server) -> None:
    over_http = anyio.run(session, f"{server.url}/mcp")
    assert len(set(over_http)) == 2
    assert anyio.run(session, by_program(server.url)) == over_http


def test_a_program_that_finds_no_server_says_so_in_one_line() -> None:
    words = [sys.executable, "-m", "restrike", "mcp", "--server", "http://127.0.0.1:9"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("restrike: no server at http://127.0.0.1:9; start one with `restrike")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("headers", "status"), [({"Host": "evil.example"}, 400), ({"Origin": "https://evil.example"}, 403)]
)
def test_the_rules_of_the_server_hold_here_too(server: Server, headers: dict[str, str], status: int) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    plain = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for path in ("/mcp", "/v1/models"):
        data = json.dumps(asked).encode() if path == "/mcp" else None
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(f"{server.url}{path}", data, plain | headers))
        with refused.value as answer:
            assert answer.code == status

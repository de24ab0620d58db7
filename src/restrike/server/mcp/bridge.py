"""MCP on standard input and output for one server that runs elsewhere: every call goes there and back.

It keeps nothing and knows no tool, so that an agent meets the same server whichever way it comes.
"""

from __future__ import annotations

import httpx2
from mcp import Client, ListToolsResult
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, PaginatedRequestParams

from restrike import __version__
from restrike.errors import NotFound, Refused

CALL_S = 120.0
"""How long a call may take: the longest wait of a tool, and room for the rest."""


async def serve(url: str, token: str | None) -> None:
    """Serve until standard input ends.

    Raises:
        NotFound: no server answers at the address.
        Refused: it wants a token, or another one.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(10.0, read=CALL_S)) as web:
        await _check(web, url)
        async with Client(streamable_http_client(f"{url}/mcp", http_client=web)) as remote:
            await _relay(remote)


async def _check(web: httpx2.AsyncClient, url: str) -> None:
    """Look whether the server is there and lets us in, so that the reason is told in one line."""
    try:
        answer = await web.get(f"{url}/api/jobs?limit=1")
    except httpx2.HTTPError as error:
        raise NotFound(
            f"no server at {url}; start one with `restrike serve`, "
            "or wait until the one that starts says `listening`"
        ) from error
    if answer.status_code in (401, 403):
        raise Refused(f"the server at {url} wants a token; give it as RESTRIKE_TOKEN")


async def _relay(remote: Client) -> None:
    async def list_tools(
        context: ServerRequestContext, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return await remote.list_tools(cursor=params.cursor if params else None)

    async def call_tool(context: ServerRequestContext, params: CallToolRequestParams) -> CallToolResult:
        return await remote.call_tool(params.name, params.arguments)

    local = Server(
        "restrike",
        version=__version__,
        instructions=remote.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    async with stdio_server() as (incoming, outgoing):
        await local.run(incoming, outgoing, local.create_initialization_options())

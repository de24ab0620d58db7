"""The MCP server of a service, and how it is served over HTTP beside everything else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import ValidationError

from restrike import __version__
from restrike.errors import Finding, Unknown
from restrike.server.forms import InvalidForm, invalid_form
from restrike.server.mcp.answers import Tool, failed, told
from restrike.server.mcp.looking import Looking
from restrike.server.mcp.results import Results
from restrike.server.mcp.working import Working
from restrike.server.service import Service
from restrike.workflow.findings import no_such

PATH = "/mcp"
INSTRUCTIONS = """\
Restrike makes images and video on the cards of this machine, and computes nothing twice.
1. `find` a card or a stored workflow, `read` it. 2. `plan` the work: it tells the cost and a fingerprint.
3. `run` it with that fingerprint as `acknowledge`: the answer is a job's id, at once. 4. `wait` for the job
in slices. 5. `results` brings links and pictures, `explain` says what was reused and why. `cancel` stops a
job. Work is one of: {"generation": {"card": "digits", "prompt": "a seven", "seed": 3}}, {"workflow": NAME or
a whole workflow, "values": {}}. `edit` changes a stored workflow by a merge patch.
"""
_LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_SPENDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_STOPS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


class ToolServer(MCPServer[Any]):
    """The tools of a service; what keeps one from being called is told as its own failures are."""

    def __init__(self, service: Service) -> None:
        super().__init__("restrike", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")
        self._service = service

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; a name or an argument that there is not is answered as a problem."""
        taken = {tool.name: tool.input_schema["properties"] for tool in await self.list_tools()}
        if name not in taken:
            return failed(self._service, Unknown("tool", name, taken))
        unknown = [each for each in arguments if each not in taken[name]]
        if unknown:
            findings = (
                Finding(path=each, message=no_such("argument", each, taken[name])) for each in unknown
            )
            return failed(self._service, InvalidForm(findings))
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            return failed(self._service, invalid_form(error.__cause__.errors()))  # type: ignore[arg-type]


def server_of(service: Service) -> MCPServer[Any]:
    """The tools of a service."""
    server = ToolServer(service)
    looking, working, results = Looking(service=service), Working(service=service), Results(service=service)
    tools: tuple[tuple[Tool, ToolAnnotations], ...] = (
        (looking.find, _LOOKS),
        (looking.read, _LOOKS),
        (working.validate, _LOOKS),
        (working.plan, _LOOKS),
        (working.run, _SPENDS),
        (working.wait, _LOOKS),
        (results.results, _LOOKS),
        (looking.explain, _LOOKS),
        (working.cancel, _STOPS),
        (working.edit, _SPENDS),
    )
    for tool, hints in tools:
        server.add_tool(told(service, tool), annotations=hints, structured_output=False)
    return server


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[None]:
    """Serve the tools of the application's service at `PATH` for as long as it lives."""
    server = server_of(app.state.service)
    # Host, origin, token and the size of bodies were looked at before a request comes here.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    served_app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security)
    app.router.routes.extend(served_app.routes)
    async with server.session_manager.run():
        yield

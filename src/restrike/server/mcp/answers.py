"""What tools answer: small plain values. A failure is one too, with what to do, never a traceback."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, TextContent
from starlette.requests import Request

from restrike.errors import Refused, RestrikeError
from restrike.server.problems import problem_of
from restrike.server.service import Service
from restrike.workflow.agreement import PlanChanged
from restrike.workflow.plan import Plan, Row, Status

Tool = Callable[..., Awaitable[Any]]
SHOWN = 20
"""So many rows of a plan are told, and the rest is counted."""
TEXT_CHARS = 6000


class PlanUnread(Refused):
    """Work that spends needs its plan acknowledged; `plan` is what would run."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(
            "`run` spends time and memory: read the plan, then call with its fingerprint as `acknowledge`"
        )
        self.plan = plan


def told(service: Service, tool: Tool) -> Tool:
    """A tool that answers in compact JSON, its failures too, as the problems that REST answers."""

    @functools.wraps(tool)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            found = await tool(*args, **kwargs)
            return compact(found) if isinstance(found, dict) else found
        except RestrikeError as error:
            return failed(service, error)

    return call


def failed(service: Service, error: RestrikeError) -> CallToolResult:
    """The answer of a call that failed: the problem, and for a plan what to send instead."""
    problem = problem_of(error)
    if isinstance(error, PlanChanged | PlanUnread):
        problem |= {"plan": plan_answer(error.plan), "resend": {"acknowledge": error.plan.fingerprint}}
    text = TextContent(type="text", text=compact(service.shown(problem)))
    return CallToolResult(content=[text], is_error=True)


def request_of(context: Context) -> Request:
    """The HTTP request that brought a call."""
    request = context.request_context.request
    assert isinstance(request, Request)
    return request


def compact(tree: Any) -> str:
    """JSON without blanks: an agent pays by the letter."""
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


def plan_answer(plan: Plan) -> dict[str, Any]:
    """A plan: its fingerprint, its cost, and its first rows."""
    reused = sum(row.status is Status.REUSED for row in plan.rows)
    return {
        "fingerprint": plan.fingerprint,
        "workflow": plan.workflow,
        "reused": reused,
        "to_run": len(plan.rows) - reused,
        "seconds": round(plan.seconds, 3),
        "download_bytes": plan.download_bytes,
        "steps": [_row(row) for row in plan.rows[:SHOWN]],
        **_more(len(plan.rows)),
        **({"elided": list(plan.elided[:SHOWN])} if plan.elided else {}),
        **({"notices": list(plan.notices[:SHOWN])} if plan.notices else {}),
    }


def page(text: str, offset: int) -> dict[str, Any]:
    """A part of a long text, and where the next one begins."""
    end = offset + TEXT_CHARS
    return {"text": text[offset:end], **({"next": end} if end < len(text) else {})}


def _row(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {"step": row.action, "runs": row.label, "status": str(row.status)}
    if row.status is not Status.REUSED:
        found["seconds"] = None if row.seconds is None else round(row.seconds, 3)
    if row.unless:
        found["unless"] = list(row.unless[:SHOWN])
    return found | ({"reason": row.reason} if row.reason else {})


def _more(count: int) -> dict[str, Any]:
    return {"more_steps": count - SHOWN} if count > SHOWN else {}

"""How a failure is answered over HTTP: one problem (RFC 9457) from the one table of failures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from restrike.errors import Cancelled, Conflict, Crashed, NotFound, RestrikeError, Shortfall, rule_of
from restrike.errors import Refused as _Refused
from restrike.workflow.agreement import PlanChanged

MEDIA_TYPE = "application/problem+json"
NO_JSON = "no JSON object; send one, and with it Content-Type: application/json"
"""What is wrong with a body of another kind; curl sends a form if it is told nothing."""


class Rejected(_Refused):
    """The request itself is at fault, before anything of what it asks for was looked at.

    `status` is the one that HTTP has for that fault, such as 401 or 413.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


_NAMES: Mapping[type[RestrikeError], str] = {
    NotFound: "not-found",
    Conflict: "conflict",
    Shortfall: "shortfall",
    Crashed: "crashed",
    Cancelled: "cancelled",
}


def class_of(error: RestrikeError) -> str:
    """The failure class as all interfaces name it: refused, not-found, conflict, shortfall, crashed."""
    return next((name for cls, name in _NAMES.items() if isinstance(error, cls)), "refused")


def status_of(error: RestrikeError) -> int:
    """The HTTP status of a failure."""
    return error.status if isinstance(error, Rejected) else rule_of(error).http_status


def problem_of(error: RestrikeError) -> dict[str, Any]:
    """The body of the answer: what, why, where in the input, and whether asking again can help."""
    name = class_of(error)
    body: dict[str, Any] = {
        "type": f"urn:restrike:problem:{name}",
        "title": (type(error).__doc__ or name).strip().splitlines()[0],
        "status": status_of(error),
        "class": name,
        "detail": error.message,
        "retry": rule_of(error).retry.value,
    }
    if error.findings:
        body["findings"] = [{"path": each.path, "message": each.message} for each in error.findings]
    if isinstance(error, PlanChanged):
        from restrike.server.views import plan_view

        body["plan"] = plan_view(error.plan)
        body["resend"] = {"accept_plan": error.plan.fingerprint}
    return body


def problem_response(error: RestrikeError, shown: Any = lambda tree: tree) -> Response:
    """The answer to a request that failed; `shown` takes what no answer may say out of it."""
    headers: dict[str, str] = {}
    status = status_of(error)
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status in (408, 413):
        headers["connection"] = "close"  # the rest of the body is not read
    text = json.dumps(shown(problem_of(error)), ensure_ascii=True)
    return Response(text, status_code=status, headers=headers, media_type=MEDIA_TYPE)

"""A server's problem as the exception that it was there.

The class that the problem names decides, or else the status; never the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from restrike import errors
from restrike.errors import RULES, Crashed, Finding, Refused, RestrikeError, Shortfall
from restrike.workflow.agreement import PlanChanged

if TYPE_CHECKING:
    from restrike.workflow.plan import Plan

_BY_STATUS: dict[int, type[RestrikeError]] = {
    **{rule.http_status: kind for kind, rule in RULES.items()},
    **dict.fromkeys((429, 503, 504), Shortfall),
}


def failure_of(status: int, body: bytes) -> RestrikeError:
    """The exception for an answer of 400 or above: its body is problem+json, or comes from a stranger."""
    problem = _problem(body)
    kind = kind_named(str(problem.get("class")))
    kind = kind or _BY_STATUS.get(status, Refused if status < 500 else Crashed)
    if isinstance(problem.get("plan"), dict):
        return PlanChanged(str(problem.get("detail")), plan_of(problem["plan"]))
    message = str(problem.get("detail") or problem.get("title") or f"answered with status {status}")
    findings = tuple(_finding(entry) for entry in problem.get("findings") or ())
    return made(kind, message, findings)


def kind_named(name: str) -> type[RestrikeError] | None:
    """The class of failure with a name, such as `NotFound` or `not-found`; None for one not known here."""
    found = getattr(errors, "".join(word[:1].upper() + word[1:] for word in name.split("-")), None)
    return found if isinstance(found, type) and issubclass(found, RestrikeError) else None


def made(kind: type[RestrikeError], message: str, findings: tuple[Finding, ...] = ()) -> RestrikeError:
    """An exception of a kind with a message that was made elsewhere."""
    if findings and issubclass(kind, Refused):
        from restrike.workflow.findings import InvalidWorkflow

        return InvalidWorkflow(findings)
    # A subclass may make its message of other things; this one is made.
    error = kind.__new__(kind)
    RestrikeError.__init__(error, message)
    return error


def plan_of(tree: Mapping[str, Any]) -> Plan:
    """The plan that a server's JSON tells of."""
    from restrike.workflow.plan import Plan, Row, Status

    def row(entry: Mapping[str, Any]) -> Row:
        return Row(**{**entry, "status": Status(entry["status"]), "unless": tuple(entry["unless"])})

    return Plan(
        workflow=tree["workflow"],
        rows=tuple(map(row, tree["rows"])),
        elided=tuple(tree["elided"]),
        notices=tuple(tree["notices"]),
        fingerprint=tree["fingerprint"],
    )


def _problem(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _finding(entry: Any) -> Finding:
    return Finding(path=str(entry.get("path", "")), message=str(entry.get("message", "")))

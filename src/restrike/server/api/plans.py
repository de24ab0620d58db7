"""Plans: what is wrong with work, and what it would do; the same answers as the command line's."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from restrike.server.api.asking import TheGrant, TheService, check_trust, heavy
from restrike.server.api.bodies import WorkForm
from restrike.server.submitting import graph_of, plan_of
from restrike.server.views import graph_view, plan_view
from restrike.workflow.findings import InvalidWorkflow

router = APIRouter(prefix="/api", tags=["plans"])


@router.post("/validate", summary="What is wrong with a workflow")
async def validate(form: WorkForm, service: TheService, grant: TheGrant) -> Any:
    """All findings at once, each with its place; nothing is written and nothing runs."""
    check_trust(form.trusted, grant)

    def look() -> dict[str, Any]:
        try:
            return graph_view(graph_of(service, form.work(service)))
        except InvalidWorkflow as error:
            return {"valid": False, "findings": [asdict(finding) for finding in error.findings]}

    return service.shown(await heavy(service, look))


@router.post("/plan", summary="What would run")
async def plan(form: WorkForm, service: TheService, grant: TheGrant) -> Any:
    """What is reused, what runs, how long and how much to download; `fingerprint` names the work."""
    check_trust(form.trusted, grant)
    found = await heavy(service, lambda: plan_of(service, form.work(service)))
    return service.shown(plan_view(found))

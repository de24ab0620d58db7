"""Endpoints: what is served, with its schemas, and calls of it as jobs. Their code runs in workers alone."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import ConfigDict, Field, JsonValue
from starlette.responses import Response

from restrike.server.api.asking import TheGrant, TheService, check_trust, heavy
from restrike.server.api.bodies import ClientId, Form, Priority, Seed
from restrike.server.api.jobs import detail
from restrike.server.endpoints.served import Served, served_view
from restrike.server.jobs.model import JobKind
from restrike.server.place import DEFAULT_WORKSPACE
from restrike.server.security.tokens import Grant
from restrike.server.service import Service
from restrike.server.submitting import Terms, Work, submit

router = APIRouter(prefix="/api/endpoints", tags=["endpoints"])
_MODEL = Annotated[str, Field(min_length=1, max_length=300)]
Name = Annotated[str, Path(max_length=80, description="As the list has it.")]


class CallForm(Form):
    """What an endpoint's handler is given, and how the job is to be done."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"payload": {"prompt": "a seven"}, "seed": 3}]},
    )

    payload: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="As the handler's schema says. A picture is $asset.NAME or $output.WORKFLOW/RUN/FILE.",
    )
    seed: Seed | None = Field(default=None, description="Drawn and recorded if left out.")
    slots: dict[str, _MODEL] = Field(
        default_factory=dict,
        max_length=32,
        description="Models for slots, in place of the server's own: an installed card or a hub id.",
    )
    client_id: ClientId = None
    priority: Priority = 0
    workspace: str = Field(default=DEFAULT_WORKSPACE, max_length=80)
    trusted: bool = Field(default=False, description="`slots` may name folders of the server; needs admin.")

    def work(self, endpoint: str, handler: str | None) -> Work:
        """The work that it means."""
        body = {
            "endpoint": endpoint,
            "handler": handler,
            "payload": self.payload,
            "slots": self.slots,
            "seed": self.seed,
        }
        return Work(kind=JobKind.ENDPOINT, body=body, workspace=self.workspace, trusted=self.trusted)


@router.get("", summary="List the endpoints")
async def list_endpoints(service: TheService) -> Any:
    """Those of the operator and all cards with weights, with what their handlers take and give."""
    found = await heavy(service, lambda: list(service.catalogue.all()))
    return {"endpoints": [_view(service, each) for each in found]}


@router.get("/{name}", summary="Look at one endpoint")
async def read_endpoint(name: Name, service: TheService) -> Any:
    """The schemas of payloads and answers, its slots and what fills them, resources, and its lock."""
    return _view(service, await heavy(service, lambda: service.catalogue.served(name)))


@router.post("/{name}", status_code=202, summary="Call an endpoint's only handler")
async def call(name: Name, form: CallForm, service: TheService, grant: TheGrant, response: Response) -> Any:
    """Answered as a job, with an id when it is durable; the payload was held against its schema by then."""
    return await _called(service, grant, form, form.work(name, None), response)


@router.post("/{name}/{handler}", status_code=202, summary="Call a handler of an endpoint")
async def call_handler(
    name: Name, handler: Name, form: CallForm, service: TheService, grant: TheGrant, response: Response
) -> Any:
    """Needed where there are several handlers."""
    return await _called(service, grant, form, form.work(name, handler), response)


async def _called(service: Service, grant: Grant, form: CallForm, work: Work, response: Response) -> Any:
    check_trust(form.trusted, grant)
    terms = Terms(client_id=form.client_id, priority=form.priority)
    job = await heavy(service, lambda: detail(service, submit(service, work, terms)))
    response.headers["location"] = job["links"]["self"]
    return job


def _view(service: Service, served: Served) -> Any:
    known = service.catalogue
    return service.shown(served_view(served, known.filled(served), known.empty(served)))

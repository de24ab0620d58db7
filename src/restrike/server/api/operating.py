"""For whoever looks after the server: switches, memory, workspaces, tokens; and the session of the page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.responses import Response

from restrike.errors import typed
from restrike.server.api.asking import TheGrant, TheService
from restrike.server.api.bodies import Form
from restrike.server.clearing import clear_idle, clear_one
from restrike.server.problems import Rejected
from restrike.server.security.guard import COOKIE
from restrike.server.security.tokens import scopes_of

router = APIRouter(prefix="/api", tags=["operating"])
_YEAR_S = 365 * 24 * 3600


class SwitchForm(Form):
    """What to turn on or off; what is left out stays."""

    paused: bool | None = None
    draining: bool | None = None


class ClearForm(Form):
    """Which device; all that are idle if left out."""

    device: str | None = Field(default=None, max_length=80, examples=["cuda:0"])


class TokenForm(Form):
    """A new token; a scope has those below it: read, run, admin."""

    name: str = Field(max_length=80)
    scopes: list[str] = Field(default=["run"], max_length=3)


class SessionForm(Form):
    """A token that the page shall use from now on."""

    token: str = Field(max_length=200)


@router.get("/switches", summary="Whether the queue is paused or drains")
def read_switches(service: TheService) -> Any:
    """Paused: nothing new starts. Draining: nothing new is accepted."""
    return service.switches.states()


@router.put("/switches", summary="Pause, resume, drain")
def set_switches(form: SwitchForm, service: TheService) -> Any:
    """Pausing marks nothing as running and stops nothing that runs; both survive a restart."""
    if form.paused is not None:
        service.switches.set_paused(form.paused)
    if form.draining is not None:
        service.switches.set_draining(form.draining)
    service.waking()
    return service.switches.states()


@router.post("/memory/clear", summary="Let idle devices go of what they hold")
async def clear_memory(service: TheService, form: ClearForm | None = None) -> Any:
    """Cards with their graphs, and models of endpoints; the next job loads what it needs.

    Answered when it is done, with the bytes that each device has free by it. A device that runs a job is left
    as it is: 409 with the job for one that was named, else a `refusal` beside those that were cleared.
    """
    if form is not None and form.device is not None:
        found = (await clear_one(service, form.device),)
    else:
        found = await clear_idle(service)
    return service.shown({"devices": [asdict(each) for each in found]})


@router.get("/workspaces", summary="List workspaces")
def list_workspaces(service: TheService) -> Any:
    """By name. None sees the assets, runs or results of another."""
    found = (path.name for path in service.place.workspaces.iterdir() if path.is_dir())
    return {"workspaces": sorted(name for name in found if not name.startswith((".", "_")))}


@router.put("/workspaces/{name}", summary="Make a workspace")
def make_workspace(name: Annotated[str, Path(max_length=80)], service: TheService) -> Any:
    """One that exists stays as it is."""
    try:
        service.place.workspace(name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typed(error) from error
    return {"workspace": name}


@router.get("/tokens", summary="List tokens")
def list_tokens(service: TheService) -> Any:
    """All but their texts, which nobody knows."""
    return {"tokens": [asdict(token) for token in service.tokens.listed()]}


@router.post("/tokens", status_code=201, summary="Make a token")
def make_token(form: TokenForm, service: TheService) -> Any:
    """Its text is told here and nowhere again."""
    scopes = scopes_of(form.scopes)
    return {"name": form.name, "scopes": sorted(scopes), "token": service.tokens.create(form.name, scopes)}


@router.delete("/tokens/{name}", status_code=204, summary="Delete a token")
def delete_token(name: str, service: TheService) -> None:
    """It opens nothing from now on."""
    service.tokens.delete(name)


@router.get("/session", summary="Who asks, and what that may do")
async def read_session(grant: TheGrant) -> Any:
    """Without a token where none is needed, all."""
    return {"name": grant.name, "scopes": sorted(grant.scopes)}


@router.post("/session", summary="Let a browser use a token")
async def begin_session(form: SessionForm, request: Request, service: TheService, response: Response) -> Any:
    """It is kept in a cookie that no script can read and no other site can send."""
    grant = await anyio.to_thread.run_sync(service.tokens.grant, form.token)
    if grant is None:
        raise Rejected(401, "the token is none of this server")
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, form.token, max_age=_YEAR_S, httponly=True, samesite="strict", secure=secure)
    return {"name": grant.name, "scopes": sorted(grant.scopes)}


@router.delete("/session", status_code=204, summary="Let a browser forget its token")
async def end_session(response: Response) -> None:
    """The token itself stays good."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")

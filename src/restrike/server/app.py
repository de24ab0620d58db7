"""The web application of a server: routes, what stands before them, and what lives as long as it does.

It runs no job; its lifespan starts what looks for events, and what it is given beside that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import anyio
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from restrike.errors import RestrikeError, typed
from restrike.server import page
from restrike.server.api import ROUTERS
from restrike.server.forms import invalid_form
from restrike.server.metrics import Metrics, Timing
from restrike.server.openai import ROUTERS as OPENAI_ROUTERS
from restrike.server.openai.failures import openai_response
from restrike.server.problems import MEDIA_TYPE, problem_response
from restrike.server.security.access import Access
from restrike.server.security.guard import Guard
from restrike.server.security.limits import BodyLimits
from restrike.server.service import Service
from restrike.server.unrouted import OPENAI, methods_of, of_http

Beside = Callable[[FastAPI], AbstractAsyncContextManager[None]]
"""What lives as long as the application: a supervisor of workers, a session manager."""
_PROBLEM = {
    "description": "What is wrong, as a problem (RFC 9457).",
    "content": {MEDIA_TYPE: {"schema": {"type": "object"}}},
}


def create_app(service: Service, access: Access | None = None, beside: tuple[Beside, ...] = ()) -> FastAPI:
    """The application of a service. `access` says who may reach it, by default this machine's users."""
    access = access or Access()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(service.news.run)
            async with AsyncExitStack() as stack:
                for each in (*beside, _tools):
                    await stack.enter_async_context(each(app))
                yield
            tasks.cancel_scope.cancel()

    app = FastAPI(
        title="Restrike",
        version=_version(),
        summary="A queue of generations and workflows over this machine's cards.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses={422: _PROBLEM, "4XX": _PROBLEM},
        redirect_slashes=False,
    )
    app.state.service = service
    app.state.metrics = Metrics(service)
    for router in (*ROUTERS, *OPENAI_ROUTERS, page.router):
        app.include_router(router)
    _answer_failures(app, service)
    # The last one stands first: a request is let in before anything of it is read.
    app.add_middleware(BodyLimits, limits=service.limits)
    app.add_middleware(Timing, metrics=app.state.metrics)
    app.add_middleware(Guard, access=access, tokens=service.tokens)
    if access.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(access.origins),
            allow_methods=["*"],
            allow_headers=["Authorization", "Content-Type", "Last-Event-ID"],
        )
    return app


@asynccontextmanager
async def _tools(app: FastAPI) -> AsyncIterator[None]:
    from restrike.server.mcp.server import served  # its library takes a second to import

    async with served(app):
        yield


def _answer_failures(app: FastAPI, service: Service) -> None:
    """Every failure becomes a problem, in one way."""

    async def known(request: Request, error: Exception) -> Response:
        return problem_response(typed(error), service.shown)

    async def of_form(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem_response(invalid_form(error.errors()), service.shown)

    async def of_protocol(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        failure = of_http(request, error.status_code, str(error.detail))
        answered = openai_response if request.url.path.startswith(OPENAI) else problem_response
        answer = answered(failure, service.shown)
        answer.headers.update(error.headers or {})
        if error.status_code == 405:
            answer.headers["allow"] = ", ".join(methods_of(request))
        return answer

    app.add_exception_handler(RestrikeError, known)
    app.add_exception_handler(Exception, known)
    app.add_exception_handler(RequestValidationError, of_form)
    app.add_exception_handler(HTTPException, of_protocol)


def _version() -> str:
    from importlib.metadata import version

    return version("restrike")

"""What a request is told that no route takes: which method its path has, or which paths there are."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request
from starlette.routing import Match

from restrike.errors import NotFound, RestrikeError
from restrike.server.problems import Rejected

OPENAI = "/v1/"
"""What begins so is asked by clients of OpenAI, and answered in their form."""


def of_http(request: Request, status: int, detail: str) -> RestrikeError:
    """The failure that a status of HTTP is: nothing at its path, no such method, or as `detail` says."""
    if status == 404:
        return _nothing(request)
    if status == 405:
        methods = " and ".join(methods_of(request))
        return Rejected(405, f"{request.method} is not possible at {_path(request)}; it takes {methods}")
    return Rejected(status, detail)


def _nothing(request: Request) -> NotFound:
    path = _path(request)
    if path.startswith(OPENAI):
        taken = ", ".join(_paths(request))
        return NotFound(f"nothing is at {path}; this server makes pictures and clips, by {taken}")
    return NotFound(f"nothing is at {path}; /openapi.json tells what is")


def methods_of(request: Request) -> tuple[str, ...]:
    """All methods that the path of a request has, over all its routes."""
    return tuple(method for method in _METHODS if _has(request, method))


def _has(request: Request, method: str) -> bool:
    scope = {**request.scope, "method": method}
    return any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes)


def _path(request: Request) -> str:
    return request.url.path[:_SHOWN]


def _paths(request: Request) -> Iterator[str]:
    return (path for path in request.app.openapi()["paths"] if path.startswith(OPENAI) and "{" not in path)


_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_SHOWN = 200
"""So many characters of a path are told back."""

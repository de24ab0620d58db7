"""The gate before every route: host, origin, token and scope of a request. Knows no route but open ones."""

from __future__ import annotations

import re
from functools import partial
from http.cookies import CookieError, SimpleCookie

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from restrike.server.problems import Rejected, problem_response
from restrike.server.security.access import Access
from restrike.server.security.tokens import OWNER, Grant, Scope, Tokens, looks_like_token

COOKIE = "restrike_token"
_OPEN = {"/", "/docs", "/healthz", "/readyz", "/api/session"}
_OPEN_FILE = re.compile(r"/page/[a-z]+\.[a-z]+")
_ADMIN = ("/api/switches", "/api/tokens", "/api/store", "/api/cells", "/api/workspaces", "/api/memory")
_LOOKS = ("/api/plan", "/api/validate")
_MAX_RANGES = 8
_ONCE = ("authorization", "origin", "range", "last-event-id")
_MAX_URL_BYTES = 16 << 10
_MAX_HEADERS_BYTES = 32 << 10
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)


class Guard:
    """Lets a request through, or answers it with why not."""

    def __init__(self, app: ASGIApp, access: Access, tokens: Tokens) -> None:
        self._app, self._access, self._tokens = app, access, tokens

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        try:
            _check_size(scope)
            _check_form(headers)
            self._check_host(scope, headers)
            scope.setdefault("state", {})["grant"] = await self._granted(scope, headers)
        except Rejected as error:
            await problem_response(error)(scope, receive, send)
            return
        await self._app(scope, receive, partial(_with_headers, send))

    def _check_host(self, scope: Connection, headers: Headers) -> None:
        hosts, origin = headers.getlist("host"), headers.get("origin")
        if len(hosts) != 1 or not self._access.knows_host(hosts[0]):
            raise Rejected(400, "the Host header names no host of this server; see --allow-host")
        if origin is not None and not self._access.knows_origin(origin, hosts[0]):
            raise Rejected(403, "a page of another origin may not call this server; see --allow-origin")
        navigates = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if foreign and origin is None and not navigates:
            raise Rejected(403, "a page of another site may not load from this server")

    async def _granted(self, scope: Connection, headers: Headers) -> Grant:
        text = _token_of(headers)
        path, method = scope["path"], scope["method"]
        if text is None or (not self._access.needs_token and not looks_like_token(text)):
            # OpenAI's clients always send a key; where none is needed, any that is no token of ours is one.
            if not self._access.needs_token:
                return OWNER
            if path in _OPEN or _OPEN_FILE.fullmatch(path) or method == "OPTIONS":
                return Grant(name="", scopes=frozenset())
            raise Rejected(401, "this server needs a token: Authorization: Bearer TOKEN")
        grant = await anyio.to_thread.run_sync(self._tokens.grant, text)
        if grant is None:
            if path == "/api/session" and "authorization" not in headers:
                return Grant(name="", scopes=frozenset())  # a stale cookie must not bar a new one
            raise Rejected(401, "the token is none of this server")
        needed = scope_needed(method, path)
        if needed not in grant.scopes:
            raise Rejected(403, f"the token '{grant.name}' lacks the scope '{needed}'")
        return grant


def scope_needed(method: str, path: str) -> Scope:
    """The scope that a request needs: whatever is not known to look only, changes something."""
    if method in ("GET", "HEAD", "OPTIONS") and not path.startswith("/api/tokens"):
        return Scope.READ
    if path.rstrip("/") in _LOOKS or path == "/api/session":
        return Scope.READ
    return Scope.ADMIN if path.startswith(_ADMIN) else Scope.RUN


def _check_size(scope: Connection) -> None:
    if len(scope.get("raw_path") or b"") + len(scope.get("query_string", b"")) > _MAX_URL_BYTES:
        raise Rejected(414, f"a URL has at most {_MAX_URL_BYTES} bytes")
    if sum(len(name) + len(value) for name, value in scope["headers"]) > _MAX_HEADERS_BYTES:
        raise Rejected(431, f"the headers have at most {_MAX_HEADERS_BYTES} bytes")


def _check_form(headers: Headers) -> None:
    """Refuse what two readers of a request may understand in two ways, and what only costs."""
    if any(len(headers.getlist(name)) > 1 for name in _ONCE):
        raise Rejected(400, f"each of these headers comes once: {', '.join(_ONCE)}")
    if "transfer-encoding" in headers and "content-length" in headers:
        raise Rejected(400, "a request has a length or an encoding of transfer, not both")
    if headers.get("transfer-encoding", "chunked").lower() != "chunked":
        raise Rejected(400, "the only encoding of transfer is chunked")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Rejected(415, "a body comes as it is, without Content-Encoding")
    if headers.get("range", "").count(",") >= _MAX_RANGES:
        raise Rejected(416, f"at most {_MAX_RANGES} ranges at once")


def _token_of(headers: Headers) -> str | None:
    given = headers.get("authorization")
    if given is not None:
        kind, _, text = given.partition(" ")
        if kind.lower() != "bearer":
            raise Rejected(401, "the only authorization is: Bearer TOKEN")
        return text.strip()
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if cookie is None else cookie.value


async def _with_headers(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        had = {name for name, _ in message["headers"]}
        message["headers"] = [*message["headers"], *(pair for pair in HEADERS if pair[0] not in had)]
    await send(message)

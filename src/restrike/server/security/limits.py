"""How much a request may send and how long it may take: its body is read whole before its route.

The body of an upload is not read here; its route reads it within limits of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from restrike.server.problems import Rejected, problem_response


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes of bodies, how long one may be on its way, and how long a sender may pause."""

    body_bytes: int = 4 << 20
    form_bytes: int = 64 << 20
    upload_bytes: int = 4 << 30
    body_s: float = 30.0
    pause_s: float = 15.0


class BodyLimits:
    """Reads a body before its route sees the request, or answers 408 or 413."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or _is_upload(scope):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_form = headers.get("content-type", "").startswith("multipart/form-data")
        most = self._limits.form_bytes if is_form else self._limits.body_bytes
        parts: list[bytes] = []
        try:
            with _deadline(self._limits.body_s):
                async for part in chunks(receive, headers, most, self._limits.pause_s):
                    parts.append(part)
        except Rejected as error:
            await problem_response(error)(scope, receive, send)
            return
        except Disconnected:
            return
        await self._app(scope, _replayed(b"".join(parts), receive), send)


class Disconnected(Exception):
    """The sender went away before the body was whole."""


async def chunks(receive: Receive, headers: Headers, most: int, pause_s: float) -> AsyncIterator[bytes]:
    """The parts of a body; raises Rejected when it is too large or pauses too long, Disconnected."""
    said, total, more = headers.get("content-length", ""), 0, True
    if said and (not said.isascii() or not said.isdigit()):
        raise Rejected(400, "Content-Length is no number")
    if said and int(said) > most:
        raise Rejected(413, f"the body has {said} bytes, at most {most} are taken")
    while more:
        with _deadline(pause_s):
            message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        part, more = message.get("body", b""), message.get("more_body", False)
        total += len(part)
        if total > most:
            raise Rejected(413, f"the body has more than {most} bytes")
        yield part


class _deadline:
    """A block that may take so long; raises Rejected with 408 after it."""

    def __init__(self, seconds: float) -> None:
        self._scope = anyio.move_on_after(seconds)
        self._seconds = seconds

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, *raised: object) -> bool | None:
        swallowed = self._scope.__exit__(*raised)  # type: ignore[arg-type]
        if self._scope.cancelled_caught:
            raise Rejected(408, f"the body did not come within {self._seconds:g} s")
        return swallowed


def _is_upload(scope: Scope) -> bool:
    return scope["method"] == "PUT" and scope["path"].startswith("/api/assets/")


def _replayed(body: bytes, receive: Receive) -> Receive:
    told = False

    async def replay() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay

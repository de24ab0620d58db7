"""Requests to one server over HTTP, each on a connection of its own, so that any thread may make them.

It is built on Python's own `http.client`: the command line's verbs use it, and another library would double
the time that they take to start. It knows no job.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from restrike.client.failures import failure_of
from restrike.errors import Crashed, NotFound, Refused

_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
_CHUNK_BYTES = 1 << 18
Body = bytes | Iterable[bytes] | None


class Away(NotFound):
    """No server listens at the address; one that restarts is back soon."""


class Broken(Crashed):
    """The connection to a server broke before its answer was whole."""


class Answer:
    """What a server answers; reading it raises Broken when the connection does."""

    def __init__(self, response: http.client.HTTPResponse, url: str, line: socket.socket) -> None:
        self._response, self._url, self._line = response, url, line

    def header(self, name: str) -> str:
        """A header's value, empty for one that is not there."""
        return self._response.getheader(name, "")

    def read(self) -> bytes:
        """All of it."""
        with unbroken(self._url):
            return self._response.read()

    def chunks(self) -> Iterator[bytes]:
        """All of it, a piece at a time."""
        while True:
            with unbroken(self._url):
                chunk = self._response.read(_CHUNK_BYTES)
            if not chunk:
                return
            yield chunk

    def cut(self) -> None:
        """Break the connection, from any thread: whoever reads is told that it broke."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    def lines(self) -> Iterator[str]:
        """Its lines as they come, without their ends."""
        while True:
            with unbroken(self._url):
                line = self._response.readline()
            if not line:
                return
            yield line.decode("utf-8").rstrip("\r\n")


class Wire:
    """The way to one server.

    `timeout_s` is how long a server may stay silent, within an answer too.
    """

    def __init__(self, url: str, *, token: str | None = None, timeout_s: float = 60.0) -> None:
        """Opens nothing yet; raises Refused for an address that is none."""
        self.url = url.rstrip("/")
        self._address = _address(url)
        self._token = token
        self._timeout_s = timeout_s

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        tree: object = None,
    ) -> Any:
        """The JSON that answers a request with JSON or with none; raises what the server raised.

        Raises:
            Away: no server listens there.
            NotFound: it has no such thing.
            Broken: the connection broke.
            Crashed: what answered is no such server.
        """
        body = None if tree is None else json.dumps(tree, ensure_ascii=False, allow_nan=False).encode()
        headers = {} if tree is None else {"Content-Type": "application/json"}
        with self.open(method, path, query=query, body=body, headers=headers) as answer:
            text = answer.read()
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            raise Crashed(f"{self.url} answered {method} {path} with something that is no JSON") from error

    @contextmanager
    def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Body = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[Answer]:
        """The answer to a request, to be read within the block; raises as `ask`."""
        connection = self._connect()
        line = connection.sock  # the answer takes it over
        try:
            with unbroken(self.url):
                found = self._send(connection, method, self._target(path, query), body, headers or {})
                if found.status >= 400:
                    raise failure_of(found.status, found.read())
            yield Answer(found, self.url, line)
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        made = _CONNECTIONS[self._address.scheme]
        connection = made(self._address.hostname or "", self._address.port, timeout=self._timeout_s)
        try:
            connection.connect()
        except OSError as error:
            raise Away(
                f"no server at {self.url}: {error.strerror or error}; start one with `restrike serve`, "
                "or wait until the one that starts says `listening`"
            ) from error
        return connection

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: Body,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        own = {"Accept": "application/json", **headers}
        if self._token:
            own["Authorization"] = f"Bearer {self._token}"
        connection.request(method, target, body=body, headers=own)
        return connection.getresponse()

    def _target(self, path: str, query: Mapping[str, Any] | None) -> str:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        asked = f"?{urlencode(given)}" if given else ""
        return f"{self._address.path.rstrip('/')}{path}{asked}"


@contextmanager
def unbroken(url: str) -> Iterator[None]:
    """Tell of a connection that breaks within the block as Broken: it may be tried again."""
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise Broken(f"the connection to {url} broke: {reason}") from error


def job_path(name: str) -> str:
    """Where a server has a job."""
    return f"/api/jobs/{quote(name, safe='')}"


def _address(url: str) -> SplitResult:
    with suppress(ValueError):
        found = urlsplit(url)
        is_one = found.scheme in _CONNECTIONS and bool(found.hostname) and found.port != 0
        if is_one and not found.query and not found.fragment:
            return found
    raise Refused(f"'{url}' is no address of a server, such as http://127.0.0.1:8420")

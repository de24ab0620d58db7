"""The one place where a server fetches what a request names by URL: only from addresses of the open internet.

The address that was looked at is the address that is connected to, for each redirect anew.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urljoin, urlsplit

from restrike.errors import Refused, Shortfall

MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK_BYTES = 1 << 16
_SIXTYFOUR = ipaddress.ip_network("64:ff9b::/96")
Resolve = Callable[[str, int], tuple[str, ...]]


def resolved(host: str, port: int) -> tuple[str, ...]:
    """All addresses of a name; raises Refused."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(f"'{host}' has no address") from error
    return tuple(dict.fromkeys(str(each[4][0]) for each in found))


def is_public(address: str) -> bool:
    """Whether an address is of the open internet, also behind the forms that hide another within."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo and found.teredo[1])
        if inner is None and found in _SIXTYFOUR:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None and inner is not False:
            return is_public(str(inner))
    return found.is_global and not found.is_multicast and not found.is_reserved


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """What a URL led to: parts of its body, and the kind that its server says it is."""

    parts: Iterator[bytes]
    content_type: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Fetcher:
    """Fetches within limits. `resolve` and `is_allowed` are for tests, which have no open internet."""

    most_bytes: int = 1 << 30
    connect_s: float = 10.0
    total_s: float = 300.0
    resolve: Resolve = resolved
    is_allowed: Callable[[str], bool] = is_public

    @contextmanager
    def fetch(self, url: str) -> Iterator[Fetched]:
        """The body behind a URL, while the block lasts.

        Raises:
            Refused: it is no http or https URL, or it leads (by a redirect, too) to an address that is not of
                the open internet, or its server refuses it.
            Shortfall: it is too large, or takes too long.
        """
        until = time.monotonic() + self.total_s
        for _ in range(MAX_REDIRECTS + 1):
            with self._asked(url, until) as answer:
                if answer.status not in _REDIRECTS:
                    if answer.status != 200:
                        raise Refused(f"'{_named(url)}' answered {answer.status}")
                    kind = answer.headers.get_content_type()
                    yield Fetched(parts=self._parts(answer, url, until), content_type=kind, url=url)
                    return
                url = urljoin(url, answer.headers.get("location", ""))
        raise Refused(f"more than {MAX_REDIRECTS} redirects, the last to '{_named(url)}'")

    @contextmanager
    def _asked(self, url: str, until: float) -> Iterator[http.client.HTTPResponse]:
        parts = _checked(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        address = self._address(host, port)
        with (
            closing(_Pinned(parts.scheme, host, port, address, self.connect_s)) as connection,
            connection.ended_at(until),
        ):
            path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
            try:
                connection.request("GET", path, headers={"Accept": "*/*", "User-Agent": "restrike"})
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException, ValueError, UnicodeError) as error:
                self._check_time(url, until)
                raise Refused(f"'{_named(url)}' cannot be fetched: {type(error).__name__}") from error
            yield answer

    def _address(self, host: str, port: int) -> str:
        """One address of a host; every one must be allowed, for a name with two faces is a trick."""
        found = self.resolve(host, port)
        if not found or not all(map(self.is_allowed, found)):
            raise Refused(f"'{host}' is not on the open internet; upload the file instead")
        return found[0]

    def _parts(self, answer: http.client.HTTPResponse, url: str, until: float) -> Iterator[bytes]:
        left = self.most_bytes
        while True:
            try:
                part = answer.read1(_CHUNK_BYTES)
            except (OSError, http.client.HTTPException) as error:
                self._check_time(url, until)
                raise Shortfall(f"'{_named(url)}' broke off: {type(error).__name__}") from error
            self._check_time(url, until)
            if not part:
                if answer.length:
                    raise Shortfall(f"'{_named(url)}' broke off {answer.length} bytes before its end")
                return
            left -= len(part)
            if left < 0:
                raise Shortfall(f"'{_named(url)}' has more than {self.most_bytes} bytes")
            yield part

    def _check_time(self, url: str, until: float) -> None:
        if time.monotonic() >= until:
            raise Shortfall(f"'{_named(url)}' took longer than {self.total_s:g} s")


class _Pinned(http.client.HTTPConnection):
    """A connection to one address, whatever its host's name means by now; TLS is checked against the name."""

    def __init__(self, scheme: str, host: str, port: int, address: str, timeout_s: float) -> None:
        super().__init__(host, port, timeout=timeout_s)
        self.default_port = 443 if scheme == "https" else 80
        self._address, self._timeout_s = address, timeout_s
        self._wire: socket.socket | None = None
        self._tls = ssl.create_default_context() if scheme == "https" else None

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), self._timeout_s)
        self._wire = self.sock = plain
        if self._tls:
            self._wire = self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)

    @contextmanager
    def ended_at(self, end_s: float) -> Iterator[None]:
        """A block in which the line is broken off at a time, however its other end drips."""
        timer = threading.Timer(max(end_s - time.monotonic(), 0.0), self._break_off)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _break_off(self) -> None:
        if self._wire is not None:
            with suppress(OSError):
                # The line below TLS: an orderly end would wait for the other side.
                socket.socket.shutdown(self._wire, socket.SHUT_RDWR)


def _checked(url: str) -> SplitResult:
    if len(url) > 2000 or any(ord(letter) <= 32 or ord(letter) == 127 for letter in url):
        raise Refused("a URL has no spaces, no control characters, and at most 2000 letters")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (raises for a port that is none)
    except ValueError as error:
        raise Refused(f"'{url[:80]}' is no URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused(f"'{_named(url)}' is no http or https URL")
    if parts.username is not None or parts.password is not None:
        raise Refused("a URL with a user name or password is not fetched")
    return parts


def _named(url: str) -> str:
    """A URL as messages name it: without its query, which may hold a secret."""
    return url.partition("?")[0][:200]

"""What a server listens on, and which hosts and origins it answers. Looks at names, resolves none."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from restrike.errors import Refused
from restrike.server.security.tokens import Tokens

_LOCAL = ("localhost", "127.0.0.1", "::1")
_ANY = ("0.0.0.0", "::", "")


@dataclass(frozen=True, kw_only=True)
class Access:
    """Who may reach a server.

    `host` is the address that it listens on; `hosts` are further names that it is called by; `origins` are
    those whose pages may call it (`https://studio.example`), none by default.
    """

    host: str = "127.0.0.1"
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    @property
    def needs_token(self) -> bool:
        """Whether a request needs a token: whenever others than this machine's users can reach it."""
        return not is_loopback(self.host)

    def check(self, tokens: Tokens) -> None:
        """Refuse to listen where everyone could come in."""
        if self.needs_token and not tokens.count():
            raise Refused(
                f"--host {self.host} is reachable by others, so it needs a token; "
                "make one first: restrike tokens new NAME"
            )

    def knows_host(self, header: str) -> bool:
        """Whether the server is called by a name of its own, which no page elsewhere can give itself."""
        name = host_name(header)
        if name is None:
            return False
        if name in _LOCAL or name == self.host.lower() or name in {host.lower() for host in self.hosts}:
            return True
        # An address is no name that someone else could have made to mean this machine.
        return self.host in _ANY and is_address(name)

    def knows_origin(self, origin: str, host: str) -> bool:
        """Whether a page of that origin may call: one of the server's own pages, or one that is allowed."""
        if origin in self.origins:
            return True
        found = urlsplit(origin)
        return found.scheme in ("http", "https") and bool(host) and found.netloc.lower() == host.lower()


def host_name(header: str) -> str | None:
    """The name in a Host header, without its port; None for what is none."""
    try:
        parts = urlsplit(f"//{header}")
        parts.port  # noqa: B018  (raises for a port that is none)
    except ValueError:
        return None
    if parts.netloc != header or "@" in header or parts.path or not parts.hostname:
        return None
    return parts.hostname.lower()


def is_address(name: str) -> bool:
    """Whether a name is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a server that listens there is reached from this machine alone."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)

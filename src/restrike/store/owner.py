"""Who holds a lease: a process, told apart from a later one of the same number. Never signals a process."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Owner:
    """One holder: host, process, when that process began, and a token that makes each holder its own.

    The host is whoever counts processes: containers of one host name that each count their own are several.
    """

    host: str
    pid: int
    began: str
    token: str

    @classmethod
    def here(cls) -> Owner:
        """A new holder in this process."""
        pid = os.getpid()
        return cls(host=_host(), pid=pid, began=_began(pid), token=secrets.token_hex(8))

    @classmethod
    def parse(cls, text: str) -> Owner:
        """The inverse of `str`."""
        host, pid, began, token = text.split(" ")
        return cls(host=host, pid=int(pid), began=began, token=token)

    def __str__(self) -> str:
        return f"{self.host} {self.pid} {self.began} {self.token}"

    def is_dead(self) -> bool:
        """Whether its process is known to be gone; of another host nothing is known."""
        return self.host == _host() and _began(self.pid) != self.began


def _host() -> str:
    try:
        counted_by = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}/{counted_by}"


def _began(pid: int) -> str:
    """When a process began, in clock ticks since boot; "-" where that cannot be told or it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "-"
    # Field 22 of proc(5), counted from the one after the name; a zombie computes nothing any more.
    return "-" if fields[0] == "Z" else fields[19]

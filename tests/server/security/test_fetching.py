"""The fetcher: nothing but the open internet, by name, by redirect, and by a name that changes its mind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from restrike.errors import Refused, Shortfall
from restrike.server.security.fetching import Fetcher, is_public

HERE = "127.0.0.1"


class Site(ThreadingHTTPServer):
    """A site on this machine that notes what it was asked for."""

    def __init__(self) -> None:
        super().__init__((HERE, 0), Pages)
        self.asked: list[str] = []


class Pages(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path.startswith("/to="):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to="))
            self.end_headers()
            return
        if self.path.startswith("/drip"):
            self._drip()
            return
        body = b"x" * (10_000 if self.path == "/big" else 10)
        self.send_response(200 if self.path != "/gone" else 404)
        self.send_header("Content-Length", str(len(body) + (5 if self.path == "/torn" else 0)))
        self.end_headers()
        self.wfile.write(body)

    def _drip(self) -> None:
        """One byte after another, of a head or of a body without a length, until nobody reads."""
        try:
            if self.path == "/drip-body":
                self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
            for _ in range(200):
                self.wfile.write(b"H")
                time.sleep(0.05)
        except OSError:
            pass

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    found = Site()
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def read(fetcher: Fetcher, url: str) -> bytes:
    with fetcher.fetch(url) as found:
        return b"".join(found.parts)


def trusting(**more: object) -> Fetcher:
    """One that takes this machine for the open internet, and `open.example` for this machine."""
    return Fetcher(
        resolve=lambda host, port: (HERE,),
        is_allowed=lambda address: address == HERE,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "0.0.0.0",
        "100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "ff02::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_of_the_open_internet(address: str) -> None:
    assert not is_public(address)


def test_addresses_of_the_open_internet() -> None:
    for address in ("93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:93.184.215.14"):
        assert is_public(address)


def test_this_machine_is_refused_by_any_name_and_asked_for_nothing(site: Site) -> None:
    port = site.server_port
    hosts = (
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "2130706433",
        "0x7f.1",
        "127.1",
    )
    for host in hosts:
        with pytest.raises(Refused):
            read(Fetcher(), f"http://{host}:{port}/secret")
    assert site.asked == []
    # Control: the same page, to a fetcher that may.
    assert read(trusting(), f"http://open.example:{port}/secret") == b"x" * 10
    assert site.asked == ["/secret"]


def test_a_redirect_is_looked_at_like_the_first_address(site: Site) -> None:
    port, resolved = site.server_port, {"open.example": (HERE,), "inside.example": ("169.254.169.254",)}
    fetcher = Fetcher(resolve=lambda host, _: resolved[host], is_allowed=lambda address: address == HERE)
    for target in (
        "http://inside.example/meta",
        "file:///etc/passwd",
        "ftp://open.example/",
        "http://u:p@open.example/",
    ):
        with pytest.raises(Refused):
            read(fetcher, f"http://open.example:{port}/to={target}")
    assert all(path.startswith("/to=") for path in site.asked)
    assert read(fetcher, f"http://open.example:{port}/to=/fine") == b"x" * 10
    with pytest.raises(Refused, match="redirects"):
        read(fetcher, f"http://open.example:{port}/to=/to=/to=/to=/to=/to=/to=/fine")


def test_a_name_that_changes_its_mind_reaches_only_what_was_looked_at(site: Site) -> None:
    answers = iter([(HERE,), ("169.254.169.254",), ("169.254.169.254",)])
    fetcher = Fetcher(resolve=lambda *_: next(answers), is_allowed=lambda address: address == HERE)
    assert read(fetcher, f"http://rebinding.example:{site.server_port}/") == b"x" * 10
    assert next(answers) == ("169.254.169.254",)  # it was asked once


def test_a_name_with_two_faces_is_refused(site: Site) -> None:
    fetcher = Fetcher(resolve=lambda *_: (HERE, "10.0.0.1"), is_allowed=lambda address: address == HERE)
    with pytest.raises(Refused, match="open internet"):
        read(fetcher, f"http://two.example:{site.server_port}/")
    assert site.asked == []


def test_limits_and_failures(site: Site) -> None:
    base = f"http://open.example:{site.server_port}"
    with pytest.raises(Shortfall, match="more than"):
        read(trusting(most_bytes=9_999), f"{base}/big")
    assert len(read(trusting(most_bytes=10_000), f"{base}/big")) == 10_000
    with pytest.raises(Refused, match="404"):
        read(trusting(), f"{base}/gone")
    with pytest.raises(Shortfall, match="broke off"):
        read(trusting(), f"{base}/torn")
    for url in (
        "http://open.example/a b",
        "http://open.example/\r\nHost: evil",
        "http://",
        "gopher://x",
        "http://x:99999/",
    ):
        with pytest.raises(Refused):
            read(trusting(), url)


@pytest.mark.parametrize("page", ["drip-head", "drip-body"])
def test_a_site_that_drips_is_given_up(site: Site, page: str) -> None:
    began = time.monotonic()
    with pytest.raises(Shortfall, match=r"longer than 0\.3 s"):
        read(trusting(total_s=0.3), f"http://open.example:{site.server_port}/{page}")
    assert time.monotonic() - began < 5.0

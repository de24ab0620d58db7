"""Drives a headless Chromium over DevTools' protocol on a pair of pipes; one page, no library.

Everything but this machine is out of its reach, and whatever goes wrong in the page is kept.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAIT_S = 60.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_OPTIONS = (
    "--headless=new --remote-debugging-pipe --no-first-run --disable-gpu --disable-dev-shm-usage "
    "--disable-sync --disable-background-networking --disable-component-update --disable-extensions "
    "--hide-scrollbars"
)


def program() -> str | None:
    """The browser that is installed here."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


class Browser:
    """One browser with one page, as `browsing` opens it."""

    def __init__(self, process: subprocess.Popen[bytes], to_it: int, from_it: int) -> None:
        self._process, self._to_it, self._from_it = process, to_it, from_it
        self._count, self._session = 0, ""
        self._left = b""
        self.faults: list[str] = []
        """What the page's scripts failed with, and what it could not load."""
        self.asked: list[str] = []
        """The addresses of all that it asked for."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What a command of the protocol answers."""
        self._count += 1
        asked: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._to_it, json.dumps(asked).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._count:
                assert "error" not in told, told
                return told["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._from_it], [], [], WAIT_S)
            found = os.read(self._from_it, 1 << 20) if ready else b""
            assert found, "the browser says nothing any more"
            self._left += found
        message, _, self._left = self._left.partition(b"\0")
        told = json.loads(message)
        self._note(told.get("method"), told.get("params", {}))
        return told

    def _note(self, event: str | None, params: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.faults.append(json.dumps(params["exceptionDetails"])[:2000])
        elif event == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.faults.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif event == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

    def open(self, url: str) -> None:
        """Go to a page."""
        self.call("Page.navigate", url=url)

    def look(self, width_px: int, height_px: int, *, dark: bool = False) -> None:
        """The size of its window, and whether its user likes it dark."""
        size = {"width": width_px, "height": height_px, "deviceScaleFactor": 1, "mobile": width_px < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def value(self, script: str) -> Any:
        """What an expression of the page's is; a promise is waited for."""
        told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def until(self, script: str) -> None:
        """Return when an expression is true."""
        end_s = time.monotonic() + WAIT_S
        while not self.value(f"Boolean({script})"):
            assert time.monotonic() < end_s, (script, self.faults, self.value("document.body.innerText"))
            time.sleep(0.02)

    def shoot(self, file: Path) -> None:
        """Keep what the page looks like, all of it, as PNG."""
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(told["data"]))


@contextmanager
def browsing(found: str) -> Iterator[Browser]:
    """A browser for a block."""
    folder = Path(tempfile.mkdtemp(prefix="restrike-browser-"))
    to_it, from_it = os.pipe(), os.pipe()
    options = [*_OPTIONS.split(), "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")
    # It reads commands from the descriptor 3, and answers on 4.
    line = f'exec "$@" 3<&{to_it[0]} 4>&{from_it[1]}'
    process = subprocess.Popen(
        ["bash", "-c", line, "browser", found, *options, f"--user-data-dir={folder}"],
        pass_fds=(to_it[0], from_it[1]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_it[0])
    os.close(from_it[1])
    try:
        yield Browser(process, to_it[1], from_it[0])
    finally:
        process.terminate()
        process.wait()
        os.close(to_it[1])
        os.close(from_it[0])
        shutil.rmtree(folder, ignore_errors=True)

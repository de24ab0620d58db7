"""Has code of endpoints looked at in a process of its own, which ends with that. It imports none of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from restrike import errors
from restrike.errors import Crashed, RestrikeError, Shortfall
from restrike.server.endpoints.served import Served, looked_at

PATIENCE_S = 60.0


def look(places: Sequence[str]) -> tuple[Served, ...]:
    """The endpoints of all these places, checked.

    Raises:
        NotFound, Refused, Crashed: one of them cannot be served, as its class says; it is named.
        Shortfall: looking takes too long.
    """
    command = [sys.executable, "-m", "restrike.server.endpoints.looker", *places]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            text, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Shortfall(f"looking at {', '.join(places)} took longer than {PATIENCE_S:.0f} s") from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise Crashed(
            f"{', '.join(places)}: looking at it ended its process with status {process.returncode}"
        ) from error
    if answer["failure"] is not None:
        raise _failure(**answer["failure"])
    return tuple(map(looked_at, answer["endpoints"]))


def _failure(place: str, kind: str, message: str) -> RestrikeError:
    found: type[RestrikeError] = getattr(errors, kind)
    return found(f"--endpoints {place}: {message}")

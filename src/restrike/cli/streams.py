"""The standard streams: what is printed arrives as it is, and a stream that is closed is no failure."""

from __future__ import annotations

import io
import os
import sys


def prepare() -> None:
    """Put the null device in place of a closed stream, and let stdout print the name of any file."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (for the life of the process)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Bytes of a name that are no UTF-8 come from the system as surrogates and go back as they were.
        sys.stdout.reconfigure(errors="surrogateescape" if _is_unicode(sys.stdout) else "backslashreplace")


def _is_unicode(stream: io.TextIOWrapper) -> bool:
    return stream.encoding.lower().replace("-", "").startswith("utf")


def silence_stdout() -> None:
    """After a failed write: drop what is left of stdout, which would fail again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

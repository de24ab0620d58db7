"""Which programs made a picture: part of its provenance, never of its key.

Nothing is imported for the answer, and what else a process has loaded does not change it.
"""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version


@cache
def versions(libraries: tuple[str, ...]) -> dict[str, str]:
    """The versions of Restrike, Python, torch and the libraries that a card is made of."""
    names = ("restrike", "torch", *libraries)
    return {"python": platform.python_version(), **{name: version(name) for name in names}}

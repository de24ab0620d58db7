"""Which programs made a picture: part of its provenance, never of its key.

Only what is loaded is asked; nothing is imported for the answer.
"""

from __future__ import annotations

import platform
import sys
from functools import cache
from importlib.metadata import version


def versions() -> dict[str, str]:
    """The versions of Restrike, Python and torch, and of the model libraries that are in use."""
    found = {"restrike": _own_version(), "python": platform.python_version()}
    for name in ("torch", "diffusers", "transformers"):
        module = sys.modules.get(name)
        if module is not None:
            found[name] = str(module.__version__)
    return found


@cache
def _own_version() -> str:
    # Kept, since the answer is read from a file.
    return version("restrike")

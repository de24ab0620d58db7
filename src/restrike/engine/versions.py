"""Which programs made a picture: part of its provenance, never of its key.

Only what is loaded is asked; nothing is imported for the answer.
"""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version


def versions() -> dict[str, str]:
    """The versions of Restrike, Python and torch, and of the model libraries that are in use."""
    found = {"restrike": version("restrike"), "python": platform.python_version()}
    for name in ("torch", "diffusers", "transformers"):
        module = sys.modules.get(name)
        if module is not None:
            found[name] = str(module.__version__)
    return found

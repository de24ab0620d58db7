"""Libraries that only some tasks need: imported when such a task runs, and named when they are missing."""

from __future__ import annotations

import importlib
from typing import Any

from restrike.errors import Refused


def needed(module: str, *, by: str, extra: str = "tasks") -> Any:
    """The module; raises Refused with the line that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Refused(f"{by} needs {module} ({error}): pip install 'restrike[{extra}]'") from error

"""What `match: exact` adds to a key: the facts of this machine that can change bits. Imports no torch."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path


def machine_identity(device: str) -> Mapping[str, object]:
    """Processor, device and torch version; a GPU is named by its driver's own files."""
    return {
        "device": device,
        "processor": _processor(),
        "architecture": platform.machine(),
        "gpus": sorted(path.read_text() for path in Path("/proc/driver/nvidia/gpus").glob("*/information")),
        "torch": version("torch"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))

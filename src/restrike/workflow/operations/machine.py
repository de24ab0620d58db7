"""What `match: exact` adds to a key: the facts of this machine that can change bits. Imports no torch."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_LIBRARIES = (
    *("torch", "numpy", "pillow", "av", "diffusers", "transformers", "peft"),
    *("opencv-python-headless", "ncnn", "segno"),
)


def machine_identity(device: str) -> Mapping[str, object]:
    """Processor, device and the libraries that compute; a GPU is named by its driver's own files."""
    return {
        "device": device,
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "processor": _processor(),
        "architecture": platform.machine(),
        "gpus": sorted(path.read_text() for path in Path("/proc/driver/nvidia/gpus").glob("*/information")),
        "libraries": {name: found for name in _LIBRARIES if (found := _version(name)) is not None},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))

"""What this machine has: versions, devices, memory, the hub's cache, extras. Looks, and changes nothing."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

HUB_VARIABLES = ("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_ENDPOINT")
_SHOWN_EXTRAS = ("server", "diffusers", "tasks", "train")


def installed(package: str) -> str | None:
    """The version of an installed package; None when there is none. Imports nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions() -> dict[str, str | None]:
    """The versions of all that can decide a picture's bytes or write it; None: not installed."""
    packages = ("restrike", "torch", "numpy", "safetensors", "av", "pillow", "diffusers", "transformers")
    return {"python": platform.python_version(), **{name: installed(name) for name in packages}}


def extras() -> dict[str, dict[str, str | None]]:
    """Each extra of this package with the versions of what it needs; None: not installed."""
    found: dict[str, dict[str, str | None]] = {name: {} for name in _SHOWN_EXTRAS}
    for line in requires("restrike") or ():
        package = re.match(r"[A-Za-z0-9._-]+", line)
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", line)
        if package and extra and extra[1] in found:
            found[extra[1]][package[0]] = installed(package[0])
    return found


def missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    return [name for name, found in extras()[extra].items() if found is None]


def devices() -> list[dict[str, Any]]:
    """The torch devices, best first, with their memory, and how much of it an engine may use and why."""
    from restrike.engine.devices import available

    return [_device(name) | _limit(name) for name in available()]


def _limit(name: str) -> dict[str, Any]:
    import torch

    from restrike.engine.memory.limits import limit_of

    found = limit_of(torch.device(name))
    return {"limit_bytes": found.size_bytes, "limit_why": found.why}


def _device(name: str) -> dict[str, Any]:
    import torch

    if not name.startswith("cuda"):
        cpu = {"model": _processor(), "threads": torch.get_num_threads()}
        return {"name": name, **(cpu if name == "cpu" else {})}
    free_bytes, total_bytes = torch.cuda.mem_get_info(name)
    model = torch.cuda.get_device_name(name)
    return {"name": name, "model": model, "free_bytes": free_bytes, "total_bytes": total_bytes}


def _processor() -> str:
    """The processor's name; Linux has it in a file, other systems in their name for the platform."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return named[1] if named else platform.processor() or platform.machine()


def memory() -> dict[str, int | None]:
    """The main memory in bytes; None where the system does not tell."""
    return {"total_bytes": _pages("SC_PHYS_PAGES"), "free_bytes": _pages("SC_AVPHYS_PAGES")}


def _pages(name: str) -> int | None:
    try:
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def hub() -> dict[str, Any]:
    """Where the Hugging Face hub keeps its files, what is there, and the variables that rule it."""
    cache = _hub_cache()
    try:
        cached = sorted(p.name.removeprefix("models--").replace("--", "/") for p in cache.glob("models--*"))
    except OSError:
        cached = []
    return {
        "cache": str(cache),
        "cached": cached,
        "variables": {name: os.environ[name] for name in HUB_VARIABLES if name in os.environ},
        "token": "HF_TOKEN" in os.environ or (cache.parent / "token").is_file(),
    }


def _hub_cache() -> Path:
    """As huggingface_hub finds it, which need not be installed."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()

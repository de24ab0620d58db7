"""All environment variables that Restrike reads, read once, typed. A bad value is refused by name.

Libraries' own variables (HF_HOME, HF_TOKEN, CUDA_VISIBLE_DEVICES, NO_COLOR) stay theirs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from platformdirs import user_data_path

from restrike.errors import Refused, Unknown

PREFIX = "RESTRIKE_"
KERNEL_VARIANTS = ("reference", "exact", "fast")
"""What a kernel promises, each allowing the ones before it: to be the reference; to give its bits; to be
within its op's tolerance."""
_NAMES = ("CELLS", "KERNELS", "MEMORY", "SERVER", "STORE", "STORE_LIMIT", "TOKEN", "WORKSPACE")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where results are kept, how many bytes of them, and how much memory an engine may use.

    RESTRIKE_STORE is the store's folder; RESTRIKE_STORE_LIMIT what it may hold, such as `50G`;
    RESTRIKE_CELLS is the URL of a second tier of compiled cells, such as `s3://bucket/cells`, empty for none;
    RESTRIKE_WORKSPACE the folder with assets, prompts and runs, the current one by default;
    RESTRIKE_MEMORY what an engine may use of a device's memory, such as `8G`, None for what is free;
    RESTRIKE_KERNELS which kernels may serve: `reference`, `exact` (the default) or `fast`;
    RESTRIKE_SERVER the address of the server that jobs are submitted to, http://127.0.0.1:8420 by default;
    RESTRIKE_TOKEN the token for it, empty for none.
    """

    store: Path
    store_limit_bytes: int
    workspace: Path
    cells: str = ""
    memory_limit_bytes: int | None = None
    kernels: str = "exact"
    server: str = "http://127.0.0.1:8420"
    token: str = ""


def settings_of(environment: Mapping[str, str]) -> Settings:
    """The settings of an environment; raises Refused or Unknown, naming the variable."""
    known = {f"{PREFIX}{name}" for name in _NAMES}
    for name in environment:
        if name.startswith(PREFIX) and name not in known:
            raise Unknown("environment variable", name, known)
    return Settings(
        store=Path(
            environment.get("RESTRIKE_STORE") or user_data_path("restrike", appauthor=False) / "store"
        ),
        store_limit_bytes=size_bytes(
            "RESTRIKE_STORE_LIMIT", environment.get("RESTRIKE_STORE_LIMIT") or "50G"
        ),
        workspace=Path(environment.get("RESTRIKE_WORKSPACE") or "."),
        cells=environment.get("RESTRIKE_CELLS") or "",
        memory_limit_bytes=_memory(environment.get("RESTRIKE_MEMORY") or ""),
        kernels=_kernels(environment.get("RESTRIKE_KERNELS") or "exact"),
        server=environment.get("RESTRIKE_SERVER") or Settings.server,
        token=environment.get("RESTRIKE_TOKEN") or "",
    )


def _kernels(text: str) -> str:
    if text not in KERNEL_VARIANTS:
        raise Unknown("kernel variant", text, KERNEL_VARIANTS, hint="Change RESTRIKE_KERNELS.")
    return text


def _memory(text: str) -> int | None:
    if not text:
        return None
    found = size_bytes("RESTRIKE_MEMORY", text)
    if found == 0:
        raise Refused(f"RESTRIKE_MEMORY={text}: an engine needs memory; leave it unset for all that is free")
    return found


@cache
def settings() -> Settings:
    """The settings of this process."""
    return settings_of(os.environ)


def size_bytes(name: str, text: str) -> int:
    """Bytes of a text such as `500M`; raises Refused naming the option or variable."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise Refused(f"{name}={text}: a size is a number and a unit, such as 500M or 50G")
    return int(match[1]) * _UNITS[match[2].upper()]

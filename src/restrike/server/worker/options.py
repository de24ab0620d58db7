"""What a worker is told when it is started, as a value and as the words of its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restrike.server.endpoints.origin import Origin, origin_of

RECYCLED = 75
"""The exit status of a worker that wants to be replaced by a fresh one."""


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """One worker. `device` is as the server names it: `cpu:1` is a second worker of the CPU.

    `torch_device` is the same as its process sees it. `share` is the number of workers that divide main
    memory, `growth_bytes` what it may grow by beside weights before it is replaced. `server` is the process
    that started it.
    """

    name: str
    database: str
    data: Path
    device: str
    torch_device: str
    server: str
    share: int = 1
    growth_bytes: int = 1 << 30
    preview_every: int = 0
    oom_score: int = 300
    nice: int = 0
    precision: str | None = None
    capture: str = "auto"
    cells: str | None = None
    mint: str | None = None
    allow_code: tuple[Path, ...] = ()
    endpoints: tuple[Origin, ...] = ()

    def words(self) -> list[str]:
        """The command line that `parsed` reads."""
        given = {
            "name": self.name,
            "database": self.database,
            "data": self.data,
            "device": self.device,
            "torch-device": self.torch_device,
            "server": self.server,
            "share": self.share,
            "growth-bytes": self.growth_bytes,
            "preview-every": self.preview_every,
            "oom-score": self.oom_score,
            "nice": self.nice,
            "precision": self.precision,
            "capture": self.capture,
            "cells": self.cells,
            "mint": self.mint,
        }
        words = [f"--{name}={value}" for name, value in given.items() if value is not None]
        words += [f"--allow-code={path}" for path in self.allow_code]
        return words + [f"--endpoint={origin.text()}" for origin in self.endpoints]


def parsed(words: Sequence[str]) -> WorkerOptions:
    """The options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m restrike.server.worker", allow_abbrev=False)
    for name in ("name", "database", "device", "torch-device", "server"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--data", type=Path, required=True)
    for name in ("share", "growth-bytes", "preview-every", "oom-score", "nice"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("precision", "cells", "mint"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--capture", required=True)
    parser.add_argument("--allow-code", type=Path, action="append", default=[])
    parser.add_argument("--endpoint", type=origin_of, action="append", default=[], dest="endpoints")
    found: dict[str, Any] = vars(parser.parse_args(words))
    found |= {name: tuple(found[name]) for name in ("allow_code", "endpoints")}
    return WorkerOptions(**found)

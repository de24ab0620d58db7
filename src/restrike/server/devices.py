"""The devices of a server by name: which are here, and how a worker's process comes to see only its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from restrike.errors import Crashed, Refused

_GPUS = "CUDA_VISIBLE_DEVICES"
_COUNT = "import torch; print(torch.cuda.device_count())"


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A device to work on. `cpu:1` is a second worker of the CPU; `cuda:1` the second visible GPU."""

    device: str
    kind: str
    index: int

    @property
    def torch_device(self) -> str:
        """What a process that sees only this device calls it."""
        return "cuda:0" if self.kind == "cuda" else self.kind

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The environment of a process that is to see only this device."""
        if self.kind != "cuda":
            return {**given, _GPUS: ""}
        visible = [name for name in given.get(_GPUS, "").split(",") if name]
        if visible and self.index >= len(visible):
            raise Refused(f"device '{self.device}': {_GPUS}={given[_GPUS]} leaves {len(visible)} visible")
        return {**given, _GPUS: visible[self.index] if visible else str(self.index)}


def slots_of(text: str) -> tuple[Slot, ...]:
    """The devices of a text such as `cuda:0,cpu:0`; raises Refused for what is none, or is there twice."""
    slots = tuple(_slot(part.strip()) for part in text.split(","))
    names = [slot.device for slot in slots]
    for name in names:
        if names.count(name) > 1:
            raise Refused(f"devices '{text}': {name} is there twice; name each worker of the CPU, as cpu:1")
    return slots


def _slot(name: str) -> Slot:
    match = re.fullmatch(r"(cpu|cuda|mps)(?::(\d{1,3}))?", name)
    if match is None:
        raise Refused(f"device '{name}' is none; there are cpu:0, cpu:1 and so on, cuda:0 and so on, and mps")
    index = int(match[2] or 0)
    return Slot(device=match[1] if match[1] == "mps" else f"{match[1]}:{index}", kind=match[1], index=index)


def slots_here() -> tuple[Slot, ...]:
    """One for each visible GPU, or one of the CPU where there is none; imports no torch in this process."""
    if not any(Path("/dev").glob("nvidia[0-9]*")) and not Path("/dev/kfd").exists():
        return slots_of("cpu:0")
    asked = subprocess.run([sys.executable, "-c", _COUNT], capture_output=True, text=True, env=os.environ)
    if asked.returncode:
        raise Crashed(f"the GPUs cannot be counted: {asked.stderr.strip().splitlines()[-1:]}")
    count = int(asked.stdout)
    return slots_of(",".join(f"cuda:{index}" for index in range(count)) or "cpu:0")

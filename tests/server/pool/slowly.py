"""Given to a worker as code of the operator's own: its model's components load slowly, or deaf to everything.

`slowly.pace` beside it says how many seconds each takes, `slowly.loads` is told which began. With a negative
pace the time is spent in C, with the interpreter held, as in a driver that does not come back.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any

from restrike.models.digits import model
from restrike.workflow.tasks.registry import task

PACE, LOADS = Path(__file__).with_suffix(".pace"), Path(__file__).with_suffix(".loads")
NAMES = ("text_encoder", "transformer", "decoder")


@task("slowly.ask", epoch="1")
def ask() -> float:
    """Say the pace; such a file must have a task."""
    return float(PACE.read_text())


def _slow(name: str) -> None:
    load = getattr(model, f"load_{name}")

    def slowly(*given: Any) -> Any:
        with LOADS.open("a") as file:
            file.write(f"{name}\n")
        seconds = ask()
        if seconds < 0:
            ctypes.PyDLL(None).sleep(int(-seconds))
        else:
            time.sleep(seconds)
        return load(*given)

    setattr(model, f"load_{name}", slowly)


for _name in NAMES:
    _slow(_name)

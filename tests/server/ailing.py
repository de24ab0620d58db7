"""A file of an operator's own that spoils its worker as long as a file lies beside it.

`ailing.load` keeps the worker from starting, `ailing.run` its model from computing. Given to
`restrike serve --allow-code`, as a copy in a test's folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from restrike.workflow.tasks.registry import task


@task("ailing.ask", epoch="1")
def ask() -> str:
    """Say what such a file must have: a task."""
    return "ill"


def _spoil() -> None:
    from restrike.models.digits.transformer import DigitsTransformer

    whole = DigitsTransformer.forward

    def forward(self: DigitsTransformer, latent_BCHW: Any, timestep_B: Any, text_BLD: Any) -> Any:
        if Path(__file__).with_suffix(".run").exists():
            raise RuntimeError("the device gives errors only")
        return whole(self, latent_BCHW, timestep_B, text_BLD)

    DigitsTransformer.forward = forward


# The server itself reads the file too, for its plans; what computes is the worker.
if "--torch-device=cpu" in sys.argv:
    if Path(__file__).with_suffix(".load").exists():
        raise RuntimeError("no driver")
    _spoil()

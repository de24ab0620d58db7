"""What a capture backend is: it turns one run of a step into a graph that can be replayed.

A backend knows no key, no proof and no budget; the capturer does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from restrike.engine.capture.trace import Trace
from restrike.loops.contract import Tensors

Step = Callable[[Tensors], Tensors]
"""One planned step as a function of its inputs."""


class Uncapturable(Exception):
    """A step that cannot be captured; the message says why and becomes the signature's reason."""


class Graph(Protocol):
    """One step, captured on fixed addresses."""

    @property
    def outputs(self) -> Tensors:
        """The step's outputs inside the graph, overwritten by each replay; never to be handed out."""
        ...

    @property
    def bytes(self) -> int:
        """What it holds beside its inputs and the weights."""
        ...

    def replay(self) -> None:
        """Run the step once more on what the captured inputs now hold."""
        ...

    def free(self) -> None:
        """Let go of all it holds."""
        ...


class Backend(Protocol):
    """A way to capture; `folds_values` says that graphs bake in the values of weights."""

    @property
    def name(self) -> str:
        """As the user names it."""
        ...

    @property
    def identity(self) -> tuple[str, int, str]:
        """Device kind, device index and architecture that its graphs run on."""
        ...

    @property
    def device(self) -> torch.device:
        """Where all inputs of a step must be."""
        ...

    @property
    def folds_values(self) -> bool:
        """Whether a graph stays right only for one version of the weights."""
        ...

    def forecast_bytes(self, trace: Trace) -> int:
        """What a graph of the step that was traced will hold, at most."""
        ...

    def capture(self, step: Step, inputs: Tensors) -> Graph:
        """Capture the step on these very tensors.

        Raises:
            Uncapturable: the step does what this backend cannot hold.
        """
        ...

    def synchronize(self) -> None:
        """Wait for the device, so that a clock tells the truth."""
        ...

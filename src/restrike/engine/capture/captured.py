"""A captured step in its own memory: inputs are copied in, the graph is replayed, outputs are copied out.

What it hands out shares no memory with it, so a caller may keep an output as long as it likes.
"""

from __future__ import annotations

from torch import Tensor, UntypedStorage

from restrike.engine.capture.backend import Backend, Graph, Step, Uncapturable
from restrike.engine.capture.buffers import StaticInputs, copies, shared
from restrike.engine.capture.proof import difference
from restrike.engine.kernels.workspace import BoundWorkspace
from restrike.loops.contract import Tensors


class CapturedStep:
    """One graph with its static inputs and the weights that it reads."""

    def __init__(
        self, backend: Backend, step: Step, inputs: StaticInputs, weights: dict[str, Tensor]
    ) -> None:
        self._inputs, self._weights = inputs, weights
        # While a graph lives, no other tensor may come to lie where it reads.
        self._held: tuple[UntypedStorage, ...] = tuple(each.untyped_storage() for each in weights.values())
        self._workspace = BoundWorkspace()
        with self._workspace.warming():
            step(inputs.tensors)

        def recorded(given: Tensors) -> Tensors:
            with self._workspace.recording():
                return step(given)

        self._graph: Graph = backend.capture(recorded, inputs.tensors)

    @property
    def bytes(self) -> int:
        """What it holds beside the weights."""
        return self._graph.bytes + self._inputs.bytes + self._workspace.size_bytes

    @property
    def addresses(self) -> dict[str, int]:
        """Where each static input lies."""
        return {name: each.data_ptr() for name, each in self._inputs.tensors.items()}

    def run(self, inputs: Tensors) -> dict[str, Tensor]:
        """The step's outputs for these inputs, in memory of their own."""
        self._inputs.fill(inputs)
        self._graph.replay()
        return copies(self._graph.outputs)

    def check_private(self, handed: Tensors) -> None:
        """Raise Uncapturable when an output that is handed out lies in memory of the graph or the weights."""
        held = {f"graph output '{name}'": each for name, each in self._graph.outputs.items()}
        held |= {f"input '{name}'": each for name, each in self._inputs.tensors.items()}
        found = shared(handed, held | self._weights)
        if found:
            raise Uncapturable(f"output '{found[0]}' would be handed out in the memory of {found[1]}")

    def check_workspace(self) -> None:
        """Raise WorkspaceOverrun when a kernel wrote past the scratch that it declared."""
        self._workspace.check()

    def check_inputs(self, inputs: Tensors) -> None:
        """Raise Uncapturable when a replay has written into the inputs that it was given."""
        changed = difference(inputs, self._inputs.tensors)
        if changed:
            raise Uncapturable(f"a replay writes into its inputs: {changed.replace('output', 'input')}")

    def free(self) -> None:
        """Let go of the graph, its buffers and the weights."""
        self._graph.free()
        self._weights, self._held = {}, ()
        self._workspace = BoundWorkspace()
        self._inputs = StaticInputs({})

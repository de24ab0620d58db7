"""CUDA graphs: the kernels of one step, recorded by the driver and launched again as a whole.

All graphs of a card share one memory pool: what one leaves behind another may use, which is safe because a
replay's outputs are copied out before the next replay begins. Static inputs lie outside the pool.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from restrike.engine.capture.backend import Step, Uncapturable
from restrike.engine.capture.trace import Trace
from restrike.loops.contract import Tensors

# On the side stream, so that libraries set up what they keep for a stream before it is recorded.
WARM_UPS = 2


class CudaBackend:
    """Captures on one NVIDIA device; made once a card, for the pool is shared by its graphs."""

    name = "cuda"
    folds_values = False

    def __init__(self, device: torch.device) -> None:
        self.device = torch.device("cuda", device.index or 0)
        self._stream: torch.cuda.Stream | None = None
        self._pool: Any = None
        self._graphs = 0

    @property
    def identity(self) -> tuple[str, int, str]:
        """Kind, index and compute capability."""
        major, minor = torch.cuda.get_device_capability(self.device)
        return "cuda", self.device.index, f"sm_{major}{minor}"

    def forecast_bytes(self, trace: Trace) -> int:
        """A graph keeps what is alive at once; memory is used again inside it."""
        return trace.peak_bytes

    def capture(self, step: Step, inputs: Tensors) -> CudaGraph:
        """Warm up on the side stream, then record there.

        Raises:
            Uncapturable: the caching allocator is off; RuntimeError: what CUDA says of a forbidden call.
        """
        if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
            raise Uncapturable("PYTORCH_NO_CUDA_MEMORY_CACHING is set, and a graph needs cached memory")
        with torch.cuda.device(self.device), _ambient_stream(self.device):
            stream = self._stream = self._stream or torch.cuda.Stream(self.device)
            _warm_up(step, inputs, stream)
            # A pool whose last graph is gone is no longer the allocator's to hand out.
            self._pool = self._pool if self._graphs else torch.cuda.graph_pool_handle()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            before = torch.cuda.memory_reserved(self.device)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
                outputs = dict(step(inputs))
            grown = max(0, torch.cuda.memory_reserved(self.device) - before)
        self._graphs += 1
        return CudaGraph(graph=graph, outputs=outputs, held_bytes=grown, freed=self._freed)

    def synchronize(self) -> None:
        """Wait for all that was launched."""
        torch.cuda.synchronize(self.device)

    def _freed(self) -> None:
        self._graphs -= 1


class CudaGraph:
    """One captured step; its outputs lie in the shared pool."""

    def __init__(
        self, *, graph: torch.cuda.CUDAGraph, outputs: Tensors, held_bytes: int, freed: Callable[[], None]
    ) -> None:
        self._graph: torch.cuda.CUDAGraph | None = graph
        self._freed = freed
        self.outputs = outputs
        self.bytes = held_bytes

    def replay(self) -> None:
        """Launch it on the current stream."""
        assert self._graph is not None
        self._graph.replay()

    def free(self) -> None:
        """Give its memory back to the pool, and the pool back when it was the last."""
        if self._graph is None:
            return
        self.outputs, self.bytes = {}, 0
        # A replay may still be running.
        torch.cuda.synchronize()
        self._graph.reset()
        self._graph = None
        self._freed()


def _warm_up(step: Step, inputs: Tensors, stream: torch.cuda.Stream) -> None:
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            step(inputs)
    torch.cuda.current_stream().wait_stream(stream)


@contextmanager
def _ambient_stream(device: torch.device) -> Iterator[None]:
    """Afterwards the same stream is current as before; a capture that fails leaves its own."""
    stream = torch.cuda.current_stream(device)
    try:
        yield
    finally:
        torch.cuda.set_stream(stream)

"""What the cuda backend keeps books of, without a GPU: its pool, its stream, and what it gives back.

Only the driver's calls are stood in for; that a replay is right is tested where there is a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from restrike.engine.capture.backend import Uncapturable
from restrike.engine.capture.cuda import WARM_UPS, CudaBackend
from restrike.loops.contract import Tensors


class Driver:
    """Notes down what is asked of it; `forbidden` makes a capture fail as CUDA does."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.pools = 0
        self.reserved_bytes = 1000
        self.stream: Any = "the user's"
        self.forbidden = False

    def set_stream(self, stream: Any) -> None:
        self.stream = stream

    def handle(self) -> tuple[int, int]:
        self.pools += 1
        return (0, self.pools)

    @contextmanager
    def graph(self, graph: Any, *, pool: Any, stream: Any, capture_error_mode: str) -> Iterator[None]:
        self.calls.append(f"capture in {pool}, {capture_error_mode}")
        self.stream = stream
        if self.forbidden:
            raise RuntimeError("operation not permitted when stream is capturing")
        yield
        self.reserved_bytes += 64
        self.stream = "the user's"

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        self.calls.append("aside")
        yield


class Stream:
    def __init__(self, device: Any = None) -> None:
        pass

    def wait_stream(self, other: Any) -> None:
        pass


class RawGraph:
    def __init__(self) -> None:
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1

    def reset(self) -> None:
        pass


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made, stands_in = Driver(), {}
    stands_in |= {"graph": made.graph, "graph_pool_handle": made.handle, "stream": made.on}
    stands_in |= {"Stream": Stream, "CUDAGraph": RawGraph, "set_stream": made.set_stream}
    stands_in |= {"memory_reserved": lambda device: made.reserved_bytes}
    stands_in |= {"synchronize": lambda *_: made.calls.append("wait"), "empty_cache": lambda: None}
    stands_in |= {"device": lambda device: made.on(None)}
    for name, stand_in in stands_in.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)

    class Current(Stream):
        def __eq__(self, other: object) -> bool:
            return other == "the user's"

    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: Current())
    return made


def doubled(inputs: Tensors) -> Tensors:
    return {"y": inputs["x"] * 2}


GIVEN = {"x": torch.ones(2)}


def test_it_warms_up_aside_and_captures_into_one_pool(driver: Driver) -> None:
    runs: list[int] = []

    def step(inputs: Tensors) -> Tensors:
        runs.append(1)
        return doubled(inputs)

    backend = CudaBackend(torch.device("cuda"))
    one, two = backend.capture(step, GIVEN), backend.capture(step, GIVEN)
    assert len(runs) == 2 * (WARM_UPS + 1)
    captures = [call for call in driver.calls if call.startswith("capture")]
    assert captures == ["capture in (0, 1), thread_local"] * 2
    assert (one.bytes, two.bytes) == (64, 64)
    assert torch.equal(one.outputs["y"], torch.tensor([2.0, 2.0]))


def test_a_pool_whose_last_graph_is_gone_is_not_used_again(driver: Driver) -> None:
    backend = CudaBackend(torch.device("cuda"))
    graphs = [backend.capture(doubled, GIVEN) for _ in range(2)]
    graphs[0].free()
    graphs[0].free()
    backend.capture(doubled, GIVEN).free()
    graphs[1].free()
    backend.capture(doubled, GIVEN)
    pools = [call.split(",")[1] for call in driver.calls if call.startswith("capture")]
    assert pools == [" 1)", " 1)", " 1)", " 2)"]


def test_freeing_waits_for_a_replay_that_runs_and_lets_go_of_the_outputs(driver: Driver) -> None:
    graph = CudaBackend(torch.device("cuda")).capture(doubled, GIVEN)
    driver.calls.clear()
    graph.free()
    assert driver.calls == ["wait"]
    assert (graph.outputs, graph.bytes) == ({}, 0)


def test_after_a_capture_that_fails_the_users_stream_is_current(driver: Driver) -> None:
    driver.forbidden = True
    backend = CudaBackend(torch.device("cuda"))
    with pytest.raises(RuntimeError, match="not permitted"):
        backend.capture(doubled, GIVEN)
    assert driver.stream == "the user's"
    driver.forbidden = False
    backend.capture(doubled, GIVEN)
    assert driver.pools == 2


def test_without_the_caching_allocator_nothing_is_captured(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    with pytest.raises(Uncapturable, match="PYTORCH_NO_CUDA_MEMORY_CACHING is set"):
        CudaBackend(torch.device("cuda")).capture(doubled, GIVEN)

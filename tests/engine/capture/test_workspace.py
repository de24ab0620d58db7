"""Kernels with scratch memory under capture: it is the graph's own, and a byte past it is found by name."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from restrike.engine.kernels.workspace import CANARY_BYTES, scratch
from restrike.loops.contract import Forward, Tensors

from .lab import Lab

SIZE_BYTES = 32


def summed(latent: Tensor, past_bytes: int) -> Tensor:
    """A kernel that leaves twice the latent's first numbers in its scratch, and reads them there."""
    memory = scratch("summed", SIZE_BYTES, latent.device)
    end = min(SIZE_BYTES + past_bytes, memory.untyped_storage().nbytes())
    torch.as_strided(memory, (end,), (1,)).fill_(0)
    numbers = memory.view(torch.float32)
    numbers.add_(2 * latent.flatten()[: numbers.numel()])
    return latent + numbers.sum()


def within(forward: Forward, inputs: Tensors) -> Tensors:
    return {"latent": summed(inputs["latent"], 0) + summed(inputs["latent"], 0)}


def beyond(forward: Forward, inputs: Tensors) -> Tensors:
    return {"latent": summed(inputs["latent"], 4)}


def test_scratch_is_bound_to_the_graph_and_counted(lab: Lab) -> None:
    lab.arm(within)
    assert lab.told(within, 3) == ["replay"] * 3
    (entry,) = lab.capturer._entries.values()
    assert entry.captured is not None
    assert entry.captured._workspace.size_bytes == SIZE_BYTES + CANARY_BYTES
    assert entry.captured.bytes >= SIZE_BYTES + CANARY_BYTES


def test_a_write_past_the_scratch_is_found_and_named(lab: Lab) -> None:
    why = lab.told(beyond, 2)[-1]
    assert why.startswith("blocked: kernel 'summed' wrote 4 or more bytes past its workspace of 32 bytes")
    assert lab.capturer.counters.graphs == 0


def now_and_then(forward: Forward, inputs: Tensors) -> Tensors:
    """A kernel that writes past its scratch for some numbers only."""
    memory = scratch("now and then", SIZE_BYTES, inputs["dt"].device)
    end = memory.untyped_storage().nbytes()
    place = ((inputs["dt"] > 0) * (SIZE_BYTES + 1)).reshape(1).clamp(max=end - 1)
    torch.as_strided(memory, (end,), (1,)).index_fill_(0, place, 0)
    return {"latent": inputs["latent"] * 2}


def test_a_write_past_it_in_the_step_that_confirms_is_found_too(lab: Lab) -> None:
    told = []
    for dt in (-0.5, -0.5, 0.5):
        plan = lab.plan(now_and_then)
        number = torch.tensor(dt, device=lab.backend.device)
        told.append(str(lab.run(replace(plan, inputs={**plan.inputs, "dt": number}))))
    assert told[:2] == ["warming", "proving"]
    assert told[2].startswith("blocked: kernel 'now and then' wrote 2 or more bytes past its workspace")
    assert lab.capturer.counters.graphs == 0

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

from restrike.engine.kernels.workspace import CANARY_BYTES, BoundWorkspace, WorkspaceOverrun, scratch
from restrike.errors import Refused

CPU = torch.device("cpu")


def writes(size_bytes: int, past_bytes: int = 0) -> None:
    """A kernel that fills its scratch, and by a fault of its own some bytes more."""
    own = scratch("filling", size_bytes, CPU)
    whole = torch.empty(0, dtype=torch.uint8).set_(own.untyped_storage())
    whole[: size_bytes + past_bytes] = 7


def test_eager_scratch_is_fresh_and_of_the_declared_size() -> None:
    one, other = scratch("filling", 24, CPU), scratch("filling", 24, CPU)
    assert one.dtype == torch.uint8
    assert one.untyped_storage().nbytes() == 24
    assert one.data_ptr() != other.data_ptr()


@pytest.mark.parametrize("size_bytes", [1, 24, 1000])
def test_a_kernel_that_keeps_to_its_bytes_passes(size_bytes: int) -> None:
    workspace = BoundWorkspace()
    with workspace.warming():
        writes(size_bytes)
    with workspace.recording():
        writes(size_bytes)
    workspace.check()
    assert workspace.size_bytes == size_bytes + CANARY_BYTES


@pytest.mark.parametrize("past_bytes", [1, 2, CANARY_BYTES])
def test_a_single_byte_past_the_end_is_found_and_named(past_bytes: int) -> None:
    workspace = BoundWorkspace()
    with workspace.warming():
        writes(24)
        workspace.check()
        writes(24, past_bytes)
    with pytest.raises(
        WorkspaceOverrun, match=f"'filling' wrote {past_bytes} or more bytes past its workspace of 24"
    ):
        workspace.check()


def test_a_recorded_call_gets_the_memory_that_was_warmed() -> None:
    workspace, seen = BoundWorkspace(), list[Tensor]()
    for phase in (workspace.warming, workspace.recording, workspace.recording):
        with phase():
            seen.append(scratch("summing", 16, CPU))
            seen.append(scratch("summing", 32, CPU))
    assert len({tensor.data_ptr() for tensor in seen}) == 2
    assert [len(tensor) for tensor in seen] == [16, 32] * 3


def test_no_memory_is_made_while_a_step_is_recorded() -> None:
    workspace = BoundWorkspace()
    with workspace.warming():
        scratch("summing", 16, CPU)
    with workspace.recording(), pytest.raises(Refused, match="'summing' asks for a workspace of 32 bytes"):
        scratch("summing", 32, CPU)


def test_the_binding_ends_with_the_block_and_stays_in_its_thread() -> None:
    workspace, elsewhere = BoundWorkspace(), list[Tensor]()
    with workspace.warming():
        other = threading.Thread(target=lambda: elsewhere.append(scratch("summing", 16, CPU)))
        other.start()
        other.join()
    assert workspace.size_bytes == 0
    scratch("summing", 16, CPU)
    assert workspace.size_bytes == 0
    assert elsewhere[0].untyped_storage().nbytes() == 16


def test_what_was_recorded_leaves_the_workspace_open() -> None:
    """A graph is warmed once more before it is recorded anew."""
    workspace = BoundWorkspace()
    with workspace.warming():
        scratch("op", 8, CPU)
    with workspace.recording():
        scratch("op", 8, CPU)
    with workspace.warming():
        assert len(scratch("op", 16, CPU)) == 16

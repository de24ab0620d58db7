"""The scratch memory of kernels: fresh when a step runs eagerly, bound and guarded when it is captured.

A kernel gets exactly the bytes that it declared and no other memory. Nothing here runs a kernel.

How a capture binds it:

    workspace = BoundWorkspace()
    with workspace.warming():    # the eager runs before the capture: each scratch gets its own memory
        step()
    with workspace.recording():  # the recorded run: the same memory, at the same addresses
        step()
    replay()
    workspace.check()            # whenever the host may wait: a byte past a scratch is found and named

`workspace.size_bytes` belongs to the bytes of the capture, which owns the workspace and drops it with itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from torch import Tensor

from restrike.errors import Refused

CANARY_BYTES = 64
CANARY = 0xA5


class WorkspaceOverrun(Refused):
    """A kernel wrote past the scratch memory that it declared."""


@dataclass(frozen=True, kw_only=True)
class _Scratch:
    """The op that asked, how many bytes, and where."""

    op: str
    size_bytes: int
    device: torch.device


@dataclass
class BoundWorkspace:
    """The scratch of one captured step, each followed by a canary.

    Calls of one op with one size share their memory: they run one after another, and a scratch holds nothing
    from one call to the next.
    """

    _memory: dict[_Scratch, Tensor] = field(default_factory=dict)
    _recording: bool = False

    @property
    def size_bytes(self) -> int:
        """All of it, canaries included."""
        return sum(memory.numel() for memory in self._memory.values())

    @contextmanager
    def warming(self) -> Iterator[None]:
        """Kernels that run inside get memory of this workspace, made when first asked for."""
        token = _bound.set(self)
        try:
            yield
        finally:
            _bound.reset(token)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """As `warming`, but no memory is made any more: making it would become part of the capture.

        Raises:
            Refused: a kernel asks for scratch that it did not ask for while it was warmed.
        """
        self._recording = True
        try:
            with self.warming():
                yield
        finally:
            self._recording = False

    def take(self, op: str, size_bytes: int, device: torch.device) -> Tensor:
        """The scratch of an op: uint8, exactly that many bytes."""
        wanted = _Scratch(op=op, size_bytes=size_bytes, device=device)
        if wanted not in self._memory:
            if self._recording:
                raise Refused(
                    f"kernel '{op}' asks for a workspace of {size_bytes} bytes while its step is captured "
                    "and asked for none of that size before"
                )
            self._memory[wanted] = torch.full(
                (size_bytes + CANARY_BYTES,), CANARY, dtype=torch.uint8, device=device
            )
        return self._memory[wanted][:size_bytes]

    def check(self) -> None:
        """Look at every canary; waits for the device.

        Raises:
            WorkspaceOverrun: a kernel wrote past its scratch; nothing that the step computed can be trusted.
        """
        for wanted, memory in self._memory.items():
            touched = (memory[wanted.size_bytes :] != CANARY).nonzero()
            if len(touched):
                raise WorkspaceOverrun(
                    f"kernel '{wanted.op}' wrote {int(touched[-1]) + 1} or more bytes past its workspace of "
                    f"{wanted.size_bytes} bytes on {wanted.device}"
                )


_bound: ContextVar[BoundWorkspace | None] = ContextVar("restrike.workspace", default=None)


def scratch(op: str, size_bytes: int, device: torch.device) -> Tensor:
    """Memory for one call of an op (uint8, exactly that many bytes), of the capture in progress if any."""
    bound = _bound.get()
    if bound is None:
        return torch.empty(size_bytes, dtype=torch.uint8, device=device)
    return bound.take(op, size_bytes, device)

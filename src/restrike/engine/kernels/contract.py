"""What a kernel is: a pure function of tensors that declares its scratch memory. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


def no_workspace(shape: Sequence[int]) -> int:
    """The declaration of a kernel that needs no scratch."""
    return 0


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One implementation of an op.

    `run(workspace, *arguments)` takes the op's arguments and gives the op's results, in the dtype, shape and
    strides of the reference. It writes to no argument, and to no memory but its results and the workspace:
    uint8, of exactly the bytes that `workspace_bytes` declares for the shape of the first argument, None when
    that is 0.
    """

    run: Callable[..., Any]
    workspace_bytes: Callable[[Sequence[int]], int] = no_workspace

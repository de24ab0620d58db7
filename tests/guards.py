"""Guards that fail a test when tensors are computed, or read by the host, where they must not be."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class NoKernel(TorchDispatchMode):
    """Lets no operation on tensors run."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} ran where none may")

"""Puts safetensors weights into a module that this package defines. Runs no code from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from restrike.cards.checkpoint import Checkpoint
from restrike.cards.placement import Placement
from restrike.errors import NotFound, Refused

M = TypeVar("M", bound=nn.Module)


class Undrawn(TorchFunctionMode):
    """Leaves out the random values that modules begin with: the weights replace them all.

    Not the meta device, whose arithmetic makes torch import its compiler, which takes longer than a picture.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        if func in (torch.rand, torch.randn):
            return torch.empty(*args, **{name: value for name, value in named.items() if name != "generator"})
        return func(*args, **named)


def with_weights(build: Callable[[], M], checkpoint: Checkpoint, file: str, placement: Placement) -> M:
    """The module that `build` makes, frozen, in eval mode, with the weights of `file` on the placement.

    No initial value is drawn, so the global random state stays as it is.

    Raises:
        NotFound: the checkpoint has no such file.
        Refused: the file is torn, or its tensors are not those of the module.
    """
    path = checkpoint.root / file
    if not path.is_file():
        raise NotFound(f"checkpoint '{checkpoint.name}' has no {file}")
    with Undrawn():
        module = build()
    try:
        # Read, not mapped: a file that is edited in place later must not change what was loaded from it.
        tensors = load(path.read_bytes())
        if names := module.state_dict().keys() ^ tensors.keys():
            raise Refused(f"checkpoint '{checkpoint.name}': {file} does not fit: {_odd(names, tensors)}")
        module.load_state_dict(tensors, assign=True)
    except (SafetensorError, RuntimeError) as error:
        raise Refused(f"checkpoint '{checkpoint.name}': {file} {_reason(error)}") from error
    module.to(device=placement.device, dtype=getattr(torch, placement.dtype))
    return module.eval().requires_grad_(False)


def _odd(names: Set[str], tensors: Mapping[str, Tensor]) -> str:
    """The first of the names that only one side has, and how many more there are."""
    first = min(names)
    line = f"tensor '{first}' is {'unknown' if first in tensors else 'missing'}"
    return f"{line}, and {len(names) - 1} more do not match" if len(names) > 1 else line


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"is torn ({text})" if isinstance(error, SafetensorError) else f"does not fit: {text}"

"""Compiled code as one operation of torch, for those who watch or record the operations of a step.

What happens inside it is nobody's to record: its memory is its own. Where nobody watches, nothing is added.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import torch
from torch import Tensor

if TYPE_CHECKING:
    from restrike.engine.compiled.call import Run
    from restrike.loops.contract import Tensors

_NUMBERS = count()
# Operations take tensors and numbers alone, so a recorded call names its code by a number that is never used
# again; the code itself belongs to who bound it.
_KNOWN: WeakValueDictionary[int, Opaque] = WeakValueDictionary()


class Opaque:
    """Code that was bound, which whoever watches operations sees as one."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._number = next(_NUMBERS)
        _KNOWN[self._number] = self

    def __call__(self, inputs: Tensors) -> Tensor:
        """The answer of the code."""
        if not torch._C._len_torch_dispatch_stack():
            return self.run(inputs)
        names = sorted(inputs)
        return _OPERATION([inputs[name] for name in names], names, self._number)


def _answer(tensors: list[Tensor], names: list[str], number: int) -> Tensor:
    return _KNOWN[number].run(dict(zip(names, tensors, strict=True)))


_LIBRARY = torch.library.Library("restrike", "FRAGMENT")
_LIBRARY.define("compiled_call(Tensor[] tensors, str[] names, int number) -> Tensor")
_LIBRARY.impl("compiled_call", _answer, "CompositeExplicitAutograd")
_OPERATION = torch.ops.restrike.compiled_call.default

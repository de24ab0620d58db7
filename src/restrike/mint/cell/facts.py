"""The facts that decide a cell: what enters a call, what compiled it, what it runs on.

Values only: nothing here looks at the machine, and no fact names a model, its weights or a place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from restrike.errors import Refused

Size = int | tuple[int, int]
"""One axis of a shape: its length, or the shortest and longest that are allowed, both included."""

Recipe = Literal["aot", "dynamo"]
Kind = Literal["cpu", "cuda"]

WRAPPER_EPOCH = "2"
"""What is made of a traced graph beside its compilation; bumped by hand when the same graph is taken apart
or called in another way."""


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """One named tensor of a call. `shape` may hold ranges; `dtype` is torch's name: `float32`."""

    key_name: ClassVar[str] = "tensor"

    name: str
    shape: tuple[Size, ...]
    dtype: str

    def __post_init__(self) -> None:
        for low, high in map(bounds, self.shape):
            if not 0 <= low <= high:
                raise Refused(f"tensor '{self.name}': an axis of {low} to {high} does not exist")


@dataclass(frozen=True, kw_only=True)
class Ingress:
    """The tensors that a call takes, in the order of their names, each name once."""

    key_name: ClassVar[str] = "ingress"

    tensors: tuple[TensorSpec, ...]

    def __post_init__(self) -> None:
        names = [tensor.name for tensor in self.tensors]
        if names != sorted(set(names)):
            raise Refused(f"a call's tensors are listed by name, each once, not as {', '.join(names)}")


@dataclass(frozen=True, kw_only=True)
class Stack:
    """What compiled a cell, as far as it decides whether the cell can be loaded.

    The C++ compiler is not here: a machine without one adopts all the same, and what its version may change
    is in the libraries' floor and in the proof against eager. `triton` is empty off CUDA, and `python` for
    `aot`, whose packages hold no Python.
    """

    key_name: ClassVar[str] = "stack"

    recipe: Recipe
    torch: str
    triton: str
    python: str
    epoch: str


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a cell runs on: `cpu` is torch's name of the CPU capability, `order` its place from low to high.

    A machine runs the code of any order up to its own. `gpu` is `sm_90` and the like, empty for the CPU;
    code for one GPU architecture runs on that one.
    """

    key_name: ClassVar[str] = "target"

    kind: Kind
    machine: str
    cpu: str
    order: int
    gpu: str

    def __str__(self) -> str:
        host = f"{self.machine} {self.cpu}"
        return f"cuda {self.gpu} on {host}" if self.kind == "cuda" else f"cpu {host}"


def bounds(size: Size) -> tuple[int, int]:
    """The shortest and the longest that an axis may be."""
    return (size, size) if isinstance(size, int) else size

"""Replaces the weights of a component, all or nothing: everything is checked first, then written in place.

A failure while it writes puts the old bytes back. It decides neither when it may run nor what a version is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from restrike.engine.weights.incoming import Form, Incoming
from restrike.engine.weights.naming import listed
from restrike.engine.weights.overlay import write
from restrike.errors import Refused
from restrike.keys import ArrayContent, Unkeyable, digest
from restrike.keys.arrays import content_of

# torch.isfinite knows no floats of one byte.
_EIGHT_BITS = 1
_THREADS = 8


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Tensors that fit a component, and the digest of what is in them."""

    source: Incoming
    content: str


def checked(component: str, module: nn.Module, source: Incoming) -> Checked:
    """Hold the tensors of a sync against a component; reads each once.

    Raises:
        Refused: a name, shape or dtype that is not the component's, a tensor that is missing or not finite;
            all faults of a kind at once.
    """
    held = module.state_dict()
    faults = [*_names(held, source.forms), *_forms(held, source.forms)]
    if faults:
        raise Refused(f"sync of '{component}' is refused and changes nothing: {'; '.join(faults)}")
    names = sorted(source.forms)
    # Hashing takes most of the time, and lets other threads run.
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        looked = dict(zip(names, pool.map(lambda name: _looked(component, name, source), names), strict=True))
    wild = [name for name, content in looked.items() if content is None]
    if wild:
        raise Refused(
            f"sync of '{component}' is refused and changes nothing: NaN or infinity in {listed(wild)}"
        )
    return Checked(source=source, content=str(digest("synced-weights", "1", looked)))


def _looked(component: str, name: str, source: Incoming) -> ArrayContent | None:
    """What is in a tensor; None when it is not finite."""
    value = source.tensor(name)
    return _content(component, name, value) if _finite(value) else None


def _content(component: str, name: str, value: Tensor) -> ArrayContent | None:
    try:
        return content_of(value.detach())
    except Unkeyable as error:
        raise Refused(f"sync of '{component}': tensor '{name}' cannot be digested: {error}") from error


def _finite(value: Tensor) -> bool:
    if not value.is_floating_point():
        return True
    return bool(torch.isfinite(value.float() if value.element_size() == _EIGHT_BITS else value).all())


def _names(held: Mapping[str, Tensor], given: Mapping[str, Form]) -> Iterator[str]:
    strange = sorted(given.keys() - held.keys())
    if strange:
        yield f"it has no {listed(strange)}"
    # Of tensors that share their memory (tied embeddings) files keep one.
    there = {_address(held[name]) for name in given if name in held}
    missing = sorted(name for name in held.keys() - given.keys() if _address(held[name]) not in there)
    if missing:
        yield f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} missing"


def _address(value: Tensor) -> tuple[object, ...]:
    return (value.device, value.data_ptr(), value.shape, value.stride()) if value.numel() else (id(value),)


def _forms(held: Mapping[str, Tensor], given: Mapping[str, Form]) -> Iterator[str]:
    both = sorted(held.keys() & given.keys())
    shapes = [name for name in both if tuple(held[name].shape) != given[name].shape]
    if shapes:
        first = shapes[0]
        yield (
            f"shape of {listed(shapes)} (the first is {given[first].shape}, not {tuple(held[first].shape)})"
        )
    dtypes = [name for name in both if not _castable(given[name].dtype, held[name].dtype)]
    if dtypes:
        first = dtypes[0]
        yield (
            f"dtype of {listed(dtypes)} (the first is {_word(given[first].dtype)}, "
            f"not {_word(held[first].dtype)}; cast it)"
        )


def _castable(given: torch.dtype | None, held: torch.dtype) -> bool:
    # Master weights are float32, and are rounded as they are when a checkpoint is loaded in less.
    return given == held or (given == torch.float32 and held in (torch.bfloat16, torch.float16))


def _word(dtype: torch.dtype | None) -> str:
    return str(dtype).removeprefix("torch.")


def written(module: nn.Module, new: Checked) -> bool:
    """Write all tensors, in place where their memory allows; returns whether any had to be replaced.

    The old bytes wait on the host until it is done, and come back when anything fails.
    """
    places = _places(module)
    before = {name: places[name].tensor() for name in new.source.forms}
    old = {name: value.detach().to("cpu", copy=True) for name, value in before.items()}
    done: list[str] = []
    try:
        for name in new.source.forms:
            done.append(name)
            places[name].put(new.source.tensor(name))
    except BaseException:
        for name in done:
            places[name].put_back(before[name], old[name])
        raise
    return any(places[name].tensor() is not before[name] for name in done)


@dataclass(frozen=True)
class _Place:
    """Where a module holds a tensor of its state."""

    owner: nn.Module
    name: str

    def tensor(self) -> Tensor:
        return getattr(self.owner, self.name)

    def put(self, value: Tensor) -> None:
        """Write the value where the tensor lies, or put a new tensor in its place."""
        held = self.tensor()
        if _takes_writes(held):
            write(held, value)
            return
        with torch.inference_mode(False):
            fresh = torch.empty_like(held, memory_format=torch.contiguous_format)
            write(fresh, value)
            made = nn.Parameter(fresh, requires_grad=False) if isinstance(held, nn.Parameter) else fresh
        setattr(self.owner, self.name, made)

    def put_back(self, before: Tensor, value: Tensor) -> None:
        """The tensor that was there, with the value that it had."""
        if self.tensor() is before:
            write(before, value)
        else:
            setattr(self.owner, self.name, before)


def _takes_writes(held: Tensor) -> bool:
    """Whether each element has memory of its own that may be written to outside of inference mode."""
    overlaps = any(stride == 0 and size > 1 for size, stride in zip(held.shape, held.stride(), strict=True))
    return not overlaps and not held.is_inference()


def _places(module: nn.Module) -> dict[str, _Place]:
    found: dict[str, _Place] = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for name in (*owner._parameters, *owner._buffers):
            found[f"{path}.{name}" if path else name] = _Place(owner, name)
    return found

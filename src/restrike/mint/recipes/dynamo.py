"""The local recipe: `torch.compile` with its saved cache artifacts as one bundle, and that bundle put back.

torch's artifacts hold a graph's sources and not the libraries that a C++ compiler made of them, so these
lie beside. A bundle that saved nothing is a failure; one that is put back must leave nothing to compile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from restrike.errors import Crashed
from restrike.loops.contract import Tensors
from restrike.mint.cell.facts import Ingress, TensorSpec, bounds
from restrike.mint.recipes.counting import LIBRARIES, cache_folder, libraries
from restrike.mint.recipes.options import Value
from restrike.mint.targets import COMPILERS, compiler
from restrike.mint.warm import Call
from restrike.mint.wrapped import WrappedCall
from restrike.store.files import copy_file

BUNDLE = "bundle.cache"


def build(
    component: nn.Module,
    call: Call,
    ingress: Ingress,
    probes: Sequence[Mapping[str, Tensor]],
    folder: Path,
    options: Mapping[str, Value],
) -> None:
    """Compile the call by running it on probes, and save what the compiler kept into `folder`.

    Raises:
        Crashed: it kept nothing.
        And what torch raises.
    """
    from torch.compiler._cache import CacheArtifactManager

    with CacheArtifactManager.with_fresh_cache():
        run = compiled(component, call, ingress, options)
        with torch.inference_mode():
            for probe in probes:
                # Made in this mode, as the engine's are: the compiler tells the two kinds apart.
                run({name: value.clone() for name, value in probe.items()})
        saved = torch.compiler.save_cache_artifacts()
    if saved is None or not saved[0] or not saved[1].inductor_artifacts:
        raise Crashed("the compiler kept nothing: its bundle is empty")
    folder.mkdir(parents=True)
    (folder / BUNDLE).write_bytes(saved[0])
    for library in libraries(cache_folder()):
        _put(library, cache_folder(), folder / LIBRARIES)


def compiled(
    component: nn.Module, call: Call, ingress: Ingress, options: Mapping[str, Value]
) -> Callable[[Tensors], Tensor]:
    """The call under `torch.compile`, whole or not at all, on named tensors; it compiles at its first run."""
    # What torch reads of the environment and keys its caches by: the same in a mint's and any other process.
    of_environment = {
        "aot_inductor.enable_line_tables": False,
        "cpp.cxx": (None, compiler(os.environ) or COMPILERS[0]),
    }
    given: dict[str, Any] = {**options, **of_environment}
    wrapped = WrappedCall(component, call, tuple(spec.name for spec in ingress.tensors))
    run: Any = torch.compile(wrapped, fullgraph=True, dynamic=False, options=given)

    def named(inputs: Tensors) -> Tensor:
        return run(*(_marked(inputs[spec.name].contiguous(), spec) for spec in ingress.tensors))

    return named


def _marked(value: Tensor, spec: TensorSpec) -> Tensor:
    """The tensor, its ranges told to the compiler, which else makes a graph for each size that it meets."""
    ranges = [(axis, bounds(size)) for axis, size in enumerate(spec.shape) if not isinstance(size, int)]
    # Another view of the same values: the caller's tensor keeps no mark.
    value = value.view(value.shape) if ranges else value
    for axis, (low, high) in ranges:
        # An axis of 1 gets a graph of its own whatever it is told.
        if value.shape[axis] > 1:
            torch._dynamo.mark_dynamic(value, axis, min=max(low, 2), max=high)
    return value


def load(
    folder: Path, component: nn.Module, call: Call, ingress: Ingress, options: Mapping[str, Value]
) -> Callable[[Tensors], Tensor]:
    """The bundle put back and the call that it belongs to. Only what was verified may be given here.

    Raises:
        Crashed: torch takes nothing out of it.
    """
    if torch.compiler.load_cache_artifacts((folder / BUNDLE).read_bytes()) is None:
        raise Crashed("the bundle cannot be read")
    for library in libraries(folder / LIBRARIES):
        _put(library, folder / LIBRARIES, cache_folder())
    return compiled(component, call, ingress, options)


def _put(library: Path, source: Path, to: Path) -> None:
    target = to / library.relative_to(source)
    if not target.exists():
        # Whole or not at all: another process may be about to load it.
        copy_file(library, target)

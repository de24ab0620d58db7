"""The local recipe: `torch.compile` with its saved cache artifacts as one bundle, and that bundle put back.

torch's artifacts hold a graph's sources and not the libraries that a C++ compiler made of them, so these
lie beside. A bundle that saved nothing is a failure; one that is put back must leave nothing to compile.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from restrike.errors import Crashed
from restrike.loops.contract import Tensors
from restrike.mint.recipes.options import Value
from restrike.mint.warm import Call
from restrike.mint.wrapped import WrappedCall

BUNDLE = "bundle.cache"
LIBRARIES = "libraries"


@dataclass(frozen=True, kw_only=True)
class Compilations:
    """What the compilers did in this process: graphs taken from the cache, graphs and libraries made anew."""

    hits: int
    graphs: int
    libraries: int


def build(
    component: nn.Module, call: Call, probe: Mapping[str, Tensor], folder: Path, options: Mapping[str, Value]
) -> None:
    """Compile the call by running it on a probe, and save what the compiler kept into `folder`.

    Raises:
        Crashed: it kept nothing.
        And what torch raises.
    """
    from torch.compiler._cache import CacheArtifactManager

    with CacheArtifactManager.with_fresh_cache():
        run = compiled(component, call, tuple(probe), options)
        with torch.inference_mode():
            # Made in this mode, as the engine's are: the compiler tells the two kinds apart.
            run({name: value.clone() for name, value in probe.items()})
        saved = torch.compiler.save_cache_artifacts()
    if saved is None or not saved[0] or not saved[1].inductor_artifacts:
        raise Crashed("the compiler kept nothing: its bundle is empty")
    folder.mkdir(parents=True)
    (folder / BUNDLE).write_bytes(saved[0])
    for library in _libraries(_cache()):
        _put(library, _cache(), folder / LIBRARIES)


def compiled(
    component: nn.Module, call: Call, names: tuple[str, ...], options: Mapping[str, Value]
) -> Callable[[Tensors], Tensor]:
    """The call under `torch.compile`, whole or not at all, on named tensors; it compiles at its first run."""
    run: Any = torch.compile(
        WrappedCall(component, call, names), fullgraph=True, dynamic=False, options=dict(options)
    )

    def named(inputs: Tensors) -> Tensor:
        return run(*(inputs[name].contiguous() for name in names))

    return named


def load(
    folder: Path, component: nn.Module, call: Call, names: tuple[str, ...], options: Mapping[str, Value]
) -> Callable[[Tensors], Tensor]:
    """The bundle put back and the call that it belongs to. Only what was verified may be given here.

    Raises:
        Crashed: torch takes nothing out of it.
    """
    if torch.compiler.load_cache_artifacts((folder / BUNDLE).read_bytes()) is None:
        raise Crashed("the bundle cannot be read")
    for library in _libraries(folder / LIBRARIES):
        _put(library, folder / LIBRARIES, _cache())
    return compiled(component, call, names, options)


def compilations(folder: Path) -> Compilations:
    """What was compiled in this process beside what came from the bundle in `folder`."""
    from torch._dynamo.utils import counters

    found = counters["inductor"]
    given = {library.name for library in _libraries(folder / LIBRARIES)}
    made = {library.name for library in _libraries(_cache())} - given
    return Compilations(
        hits=found["fxgraph_cache_hit"], graphs=found["fxgraph_cache_miss"], libraries=len(made)
    )


def _cache() -> Path:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir())


def _libraries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.so"))


def _put(library: Path, source: Path, to: Path) -> None:
    target = to / library.relative_to(source)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, target)

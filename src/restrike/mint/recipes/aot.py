"""The portable recipe: a weightless AOTInductor package of one traced call, and that package as a callable.

The package holds code alone. Its constants are bound by reference from the resident weights, all of them or
none, and it cannot be called before.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from restrike.errors import Crashed
from restrike.loops.contract import Tensors
from restrike.mint.cell import capability
from restrike.mint.cell.facts import Target
from restrike.mint.cell.manifest import ConstantSpec
from restrike.mint.recipes.decompositions import decomposed
from restrike.mint.recipes.options import Value
from restrike.mint.refusals import MintRefused, Subject
from restrike.mint.wrapped import constants_of

PACKAGE = "cell.pt2"
_MODEL = "model"
# What changes the time of compiling and nothing of what is made: headers that are compiled in advance take
# longer than the few files of a call gain by them.
_HOW_FAST = {"aot_inductor.precompile_headers": False}
_FOLDER_IN_PACKAGE = "cell"
# The sources name the folders of the machine that compiled them, and nothing reads them.
_LEFT_OUT = (".cpp", ".cu")
_ALIGNED_BYTES = 16
_EPOCH_OF_ZIP = (1980, 1, 1, 0, 0, 0)


def build(program: Any, folder: Path, options: Mapping[str, Value], target: Target, scratch: Path) -> None:
    """Compile a traced program into `folder`.

    Raises:
        Crashed: the compiler failed.
        And what torch raises; memory that ran out among it.
    """
    from torch._inductor import aoti_compile_and_package

    clamp(target)
    written = scratch / "package.pt2"
    aoti_compile_and_package(
        decomposed(program, target), package_path=str(written), inductor_configs={**options, **_HOW_FAST}
    )
    if not written.exists():
        raise Crashed("the compiler wrote no package")
    folder.mkdir(parents=True)
    _repack(written, folder / PACKAGE)
    written.unlink()


def clamp(target: Target) -> None:
    """Leave this process's compiler no vector instructions beyond the target's own.

    Only in a process that compiles for this target alone: torch has no option for it, and would use all that
    the processor has.
    """
    from torch._inductor import cpu_vec_isa

    level = capability.level(target.machine, target.cpu)[1].name.lower()
    named = "asimd" if target.machine == "aarch64" else level
    kept = [isa for isa in cpu_vec_isa.supported_vec_isa_list if str(isa) == named]
    for isa in kept:
        # Asking it whether it works also turns its extension on; that is the answer kept afterwards.
        if bool(isa) and hasattr(isa, "_is_avx512_bf16_supported"):
            isa._is_avx512_bf16_supported = False  # pyright: ignore[reportAttributeAccessIssue]
    cpu_vec_isa.supported_vec_isa_list[:] = kept
    cpu_vec_isa.valid_vec_isa_list.cache_clear()


def load(
    folder: Path, component: nn.Module, names: tuple[str, ...], subject: Subject
) -> Callable[[Tensors], Tensor]:
    """The package as a callable on named tensors, its constants bound to the component's own memory.

    Runs native code: only what was verified may be given here.

    Raises:
        MintRefused: a constant of the package has no counterpart in the component, or one would stay unbound.
    """
    device = next(iter(component.parameters())).device
    package = opened(folder, device)
    bind(package, constants_of(component), subject)
    return callable_of(package, names)


def opened(folder: Path, device: torch.device) -> Any:
    """The package in this process, bound to nothing: it must not be called yet. Runs native code."""
    # Not torch's own loading: that runs a C++ compiler to ask about the processor, and only warns.
    index = device.index if device.index is not None else -1
    # Whoever computes has the device's turn, so the package need not keep threads apart: on CUDA it would
    # query an event for that, which ends the capture of a graph that a step is being captured into.
    is_alone = device.type == "cuda"
    return torch._C._aoti.AOTIModelPackageLoader(  # pyright: ignore[reportAttributeAccessIssue]
        str(folder / PACKAGE), _MODEL, is_alone, 1, index
    )


def bind(package: Any, weights: Mapping[str, Tensor], subject: Subject) -> None:
    """Let the package read these weights where they lie; raises MintRefused when one it needs is missing."""
    wanted = set(package.get_constant_fqns())
    unbound = sorted(wanted - weights.keys())
    if unbound:
        raise MintRefused(
            subject, f"constant '{unbound[0]}' is not among the weights", "mint for this architecture"
        )
    bound = {name: weights[name] for name in sorted(wanted)}
    package.load_constants(bound, use_inactive=False, check_full_update=True, user_managed=True)


def callable_of(package: Any, names: tuple[str, ...]) -> Callable[[Tensors], Tensor]:
    """A bound package as a callable on named tensors."""

    def call(inputs: Tensors) -> Tensor:
        (answer,) = package.boxed_run([_as_traced(inputs[name]) for name in names])
        return answer

    return call


def _as_traced(value: Tensor) -> Tensor:
    """A package takes every tensor to lie densely and on a boundary, as it was traced, and looks at none."""
    dense = value.contiguous()
    return dense if dense.data_ptr() % _ALIGNED_BYTES == 0 else dense.clone()


def constants(program: Any) -> tuple[ConstantSpec, ...]:
    """The constants that a program binds, by name: the parameters and buffers that it reads."""
    signature = program.graph_signature
    named = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    found: list[ConstantSpec] = []
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.users and node.name in named:
            value = node.meta["val"]
            dtype = str(value.dtype).removeprefix("torch.")
            found.append(ConstantSpec(name=named[node.name], shape=tuple(value.shape), dtype=dtype))
    return tuple(sorted(found, key=lambda constant: constant.name))


def _repack(written: Path, to: Path) -> None:
    """The package without its sources, under one name, without times."""
    with zipfile.ZipFile(written) as source, zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as target:
        for info in source.infolist():
            if info.filename.endswith(_LEFT_OUT):
                continue
            _, _, inner = info.filename.partition("/")
            named = zipfile.ZipInfo(f"{_FOLDER_IN_PACKAGE}/{inner}", _EPOCH_OF_ZIP)
            target.writestr(named, source.read(info))

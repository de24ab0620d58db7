"""Opens a cell of the store and binds it to a component: all that its code needs, and nothing undeclared.

Whatever is bound was verified in that moment; weights are bound where they lie, and never copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from restrike.engine.compiled.call import Run
from restrike.keys import Digest
from restrike.mint.adoption.discovery import Place, Wanted
from restrike.mint.adoption.refusal import AdoptionRefusal, AdoptionRefused
from restrike.mint.cell.manifest import ConstantSpec, Manifest
from restrike.mint.recipes import aot, dynamo
from restrike.mint.recipes.counting import compilations
from restrike.mint.refusals import Subject
from restrike.mint.warm import Observed
from restrike.mint.wrapped import constants_of


def bind_cell(place: Place, key: Digest, wanted: Wanted, seen: Observed, module: nn.Module) -> Run:
    """The cell of a key as a callable that reads the module's own memory.

    Raises:
        CellRefused, NotFound: as the store's `open`.
        AdoptionRefused: missing, other or extra constant; something was compiled.
    """
    with (
        place.store.open(key, place.host) as cell,
        TemporaryDirectory(prefix="restrike-cell-") as scratch,
    ):
        members = Path(scratch) / "members"
        cell.unpack(members)
        if wanted.recipe == "dynamo":
            return _bundle(members, wanted, seen, module)
        return _package(members, cell.manifest, module)


def _package(members: Path, manifest: Manifest, module: nn.Module) -> Run:
    """Nothing can call it before it is bound; a missing or other constant is found before code is loaded."""
    weights = constants_of(module)
    declared = {spec.name: spec for spec in manifest.facts.constants}
    check_constants(declared, weights)
    package = aot.opened(members, next(iter(module.parameters())).device)
    extra = sorted(set(package.get_constant_fqns()) - declared.keys())
    if extra:
        raise AdoptionRefused(
            AdoptionRefusal.EXTRA_CONSTANT, f"its code reads '{extra[0]}', which it does not declare"
        )
    aot.bind(package, {name: weights[name] for name in declared}, Subject(card="", recipe="aot"))
    return aot.callable_of(package, tuple(spec.name for spec in manifest.facts.ingress.tensors))


def _bundle(members: Path, wanted: Wanted, seen: Observed, module: nn.Module) -> Run:
    """torch.compile with its bundle put back, which must leave it nothing to compile."""
    before = compilations(members)
    run = dynamo.load(members, module, seen.call, seen.ingress, wanted.options)
    with torch.inference_mode():
        run(seen.probe(seen.shape.batches[0]))
    after = compilations(members)
    if after.graphs > before.graphs or after.libraries > before.libraries or after.hits <= before.hits:
        raise AdoptionRefused(
            AdoptionRefusal.COMPILED_ANEW,
            f"{after.graphs - before.graphs} graphs and {after.libraries - before.libraries} libraries, "
            f"{after.hits - before.hits} graphs from its bundle",
        )
    return run


def check_constants(declared: Mapping[str, ConstantSpec], weights: Mapping[str, Tensor]) -> None:
    """Hold what a cell needs against what a component has; raises AdoptionRefused."""
    devices = {weight.device for weight in weights.values()}
    if len(devices) > 1:
        places = " and ".join(sorted(map(str, devices)))
        raise AdoptionRefused(AdoptionRefusal.OTHER_CONSTANT, f"the component's weights are on {places}")
    for name, spec in declared.items():
        weight = weights.get(name)
        if weight is None:
            raise AdoptionRefused(AdoptionRefusal.MISSING_CONSTANT, f"the component has no '{name}'")
        form = (tuple(weight.shape), str(weight.dtype).removeprefix("torch."))
        if form != (spec.shape, spec.dtype):
            raise AdoptionRefused(
                AdoptionRefusal.OTHER_CONSTANT,
                f"'{name}' is {_form(*form)}, compiled for {_form(spec.shape, spec.dtype)}",
            )
        if (odd := _odd(weight)) is not None:
            raise AdoptionRefused(AdoptionRefusal.OTHER_CONSTANT, f"'{name}' {odd}")


def _odd(weight: Tensor) -> str | None:
    """Why the values of a weight are not what lies at its address, as compiled code takes them to."""
    if type(weight) not in (Tensor, nn.Parameter):
        return f"is a {type(weight).__name__}, which computes its values"
    if not weight.is_contiguous():
        return "does not lie densely"
    return "is a view that changes signs" if weight.is_neg() or weight.is_conj() else None


def _form(shape: tuple[int, ...], dtype: str) -> str:
    return f"{'x'.join(map(str, shape)) or '0-d'} {dtype}"

"""What a checkpoint's index says, checked against the folder before any weights are read.

Nothing found in the folder runs here, unless the user trusts it; pickled weights are never opened.
"""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass
from typing import Any

from restrike.cards.checkpoint import Checkpoint
from restrike.errors import NotFound, Refused
from restrike.models.libraries import libraries
from restrike.models.pipeline.options import AS_PUBLISHED, PipelineOptions
from restrike.models.pipeline.weights import Weights, weights_in

INDEX = "model_index.json"
TRUST = "--trust-remote-code (Python: trust_remote_code=True)"


@dataclass(frozen=True, kw_only=True)
class PipelineFolder:
    """A checkpoint that can be loaded: its pipeline's class and the variant of the weights to read."""

    checkpoint: Checkpoint
    pipeline: type
    variant: str | None

    @property
    def name(self) -> str:
        """What messages call the pipeline."""
        return self.pipeline.__name__


@libraries("pipeline")
def read(checkpoint: Checkpoint, options: PipelineOptions = AS_PUBLISHED) -> PipelineFolder:
    """Read the index and look at every component that it names and that the options do not leave out.

    Raises:
        NotFound: a component's folder, configuration or weights are missing.
        Refused: the installed libraries lack a class, weights are torn or only pickled, or code that lies
            in the folder would have to run and is not trusted.
    """
    index = checkpoint.json(INDEX)
    _admit_code(checkpoint, index)
    pipeline = _pipeline_class(checkpoint, index, options.pipeline)
    found = {
        name: weights_in(checkpoint, name)
        for name, (library, kind) in _components(index).items()
        if name not in options.without and _has_weights(checkpoint, name, library, kind)
    }
    return PipelineFolder(
        checkpoint=checkpoint, pipeline=pipeline, variant=_variant(checkpoint, found, options.variant)
    )


def _components(index: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Component name to (library, class), without those that the checkpoint leaves empty."""
    return {
        name: (value[0], value[1])
        for name, value in index.items()
        if not name.startswith("_")
        and isinstance(value, list)
        and len(value) == 2
        and all(isinstance(part, str) for part in value)
    }


def _admit_code(checkpoint: Checkpoint, index: dict[str, Any]) -> None:
    custom = index.get("_class_name")
    files = [f"{custom[0]}.py"] if isinstance(custom, list) and custom else []
    files += [f"{name}/{library}.py" for name, (library, _) in _components(index).items()]
    code = [file for file in files if checkpoint.has(file)]
    if isinstance(custom, list) and not code:
        raise NotFound(f"checkpoint '{checkpoint.name}' has no {files[0]}, which its {INDEX} names")
    if code and not checkpoint.code_trusted:
        raise Refused(
            f"checkpoint '{checkpoint.name}' runs its own Python code ({', '.join(code)}); "
            f"read it, and if you trust it pass {TRUST}"
        )


def _pipeline_class(checkpoint: Checkpoint, index: dict[str, Any], asked: str | None) -> type:
    import diffusers
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline

    named = asked or index.get("_class_name")
    if isinstance(named, list):
        from diffusers.utils.dynamic_modules_utils import get_class_from_dynamic_module

        file, kind = f"{named[0]}.py", str(named[1])
        found = get_class_from_dynamic_module(
            str(checkpoint.root), module_file=file, class_name=kind, trust_remote_code=True
        )
    else:
        found = getattr(diffusers, str(named), None)
    if not (isinstance(found, type) and issubclass(found, DiffusionPipeline)):
        near = difflib.get_close_matches(str(named), dir(diffusers), n=1)
        guess = f"; the nearest that it has is {near[0]}" if near else ""
        said = "is to be loaded as" if asked else "is"
        raise Refused(
            f"checkpoint '{checkpoint.name}' {said} a {named}, which the installed diffusers "
            f"{diffusers.__version__} does not know{guess}; another version may"
        )
    return found


def _has_weights(checkpoint: Checkpoint, name: str, library: str, kind: str) -> bool:
    import torch

    if not checkpoint.has(name):
        raise NotFound(f"checkpoint '{checkpoint.name}' has no folder '{name}' ({library}.{kind})")
    if checkpoint.has(f"{name}/{library}.py"):
        return checkpoint.has(f"{name}/*.safetensors")
    found = getattr(_library(checkpoint, name, library), kind, None)
    if found is None and library == "diffusers":
        raise Refused(f"checkpoint '{checkpoint.name}': the installed diffusers has no {kind} ({name})")
    # A class that transformers has renamed is left to diffusers, which knows its new name.
    return isinstance(found, type) and issubclass(found, torch.nn.Module)


def _library(checkpoint: Checkpoint, name: str, library: str) -> Any:
    """The library of a component; a name in a downloaded file must not import whatever is installed."""
    import diffusers.pipelines

    if library in ("diffusers", "transformers"):
        return importlib.import_module(library)
    if hasattr(diffusers.pipelines, library):
        return getattr(diffusers.pipelines, library)
    raise Refused(
        f"checkpoint '{checkpoint.name}': component '{name}' comes from '{library}', "
        "which is neither diffusers nor transformers"
    )


def _variant(checkpoint: Checkpoint, found: dict[str, Weights], asked: str | None) -> str | None:
    """The variant asked for; else None where every component has plain weights; else what fills the gaps."""
    if asked is not None:
        return _variant_asked(checkpoint, found, asked)
    lacking = [weights.variants for weights in found.values() if None not in weights.variants]
    if not lacking:
        return None
    common = sorted(variant for variant in frozenset.intersection(*lacking) if variant is not None)
    if len(common) != 1:
        held = ", ".join(sorted({str(variant) for variants in lacking for variant in variants}))
        raise Refused(f"checkpoint '{checkpoint.name}' has no one variant of all its weights: {held}")
    return common[0]


def _variant_asked(checkpoint: Checkpoint, found: dict[str, Weights], asked: str) -> str:
    held = {variant for weights in found.values() for variant in weights.variants if variant is not None}
    if asked not in held:
        there = ", ".join(sorted(held)) or "plain weights only"
        raise Refused(f"checkpoint '{checkpoint.name}' has no variant '{asked}' (there is {there})")
    # A component without the variant is read from its plain weights, as diffusers does.
    for name, weights in found.items():
        if not weights.variants & {asked, None}:
            raise Refused(f"checkpoint '{checkpoint.name}' has '{name}' neither plain nor as '{asked}'")
    return asked

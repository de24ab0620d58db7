"""Quantization of a pipeline's components while they are loaded, by configuration class and options."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from restrike.cards.checkpoint import Checkpoint
from restrike.errors import Refused
from restrike.models.pipeline.installed import QUANTIZATIONS, is_installed
from restrike.models.pipeline.options import Quantization

CLASS = "class"
# Where the classes of options that are themselves objects are looked for.
_OPTION_CLASSES = "torchao.quantization"


def quantization_fault(name: str) -> str | None:
    """Why a configuration class cannot be used here; None when it can."""
    if name not in QUANTIZATIONS:
        return f"no quantization '{name}' (there is {', '.join(sorted(QUANTIZATIONS))})"
    module = QUANTIZATIONS[name]
    if is_installed(module):
        return None
    ready = [other for other, needs in QUANTIZATIONS.items() if is_installed(needs)]
    package = module.replace(".", "-")
    return f"{name} needs {package}, which is not installed (ready here: {', '.join(ready) or 'none'})"


def quantization_config(checkpoint: Checkpoint, chosen: Quantization) -> Any:
    """What diffusers takes: for each component the configuration class of its own library.

    Raises:
        Refused: the class is unknown or needs what is not installed, or it rejects the options.
    """
    from diffusers.quantizers.pipe_quant_config import PipelineQuantizationConfig

    fault = quantization_fault(chosen.name)
    if fault:
        raise Refused(fault)
    index = checkpoint.json("model_index.json")
    try:
        mapping = {name: _config(index[name][0], chosen) for name in chosen.components}
        return PipelineQuantizationConfig(quant_mapping=mapping)
    except (ValueError, TypeError, AttributeError, ImportError, NotImplementedError) as error:
        raise Refused(f"{chosen.name} refuses its options: {' '.join(str(error).split())}") from error


def _config(library: str, chosen: Quantization) -> Any:
    # A component of a pipeline's own module is a diffusers model.
    home = importlib.import_module("transformers" if library == "transformers" else "diffusers")
    options = {name: _made(value) for name, value in chosen.options.items()}
    return getattr(home, chosen.name)(**options)


def _made(value: Any) -> Any:
    """An option that is an object is written as {class: its class, ...its options}."""
    if not (isinstance(value, Mapping) and CLASS in value):
        return value
    from torchao.core.config import AOBaseConfig  # pyright: ignore[reportMissingImports]

    name = str(value[CLASS])
    found = getattr(importlib.import_module(_OPTION_CLASSES), name, None)
    if not (isinstance(found, type) and issubclass(found, AOBaseConfig)):
        raise ValueError(f"{_OPTION_CLASSES} has no configuration '{name}'")
    return found(**{key: _made(part) for key, part in value.items() if key != CLASS})

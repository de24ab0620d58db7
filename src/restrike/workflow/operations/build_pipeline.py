"""Builds the operation of a `pipeline` step: checks all that can be known without importing diffusers.

Which arguments a class takes is known only to the class: the card checks them before it reads weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from restrike.cards.checkpoint import Checkpoint, Location
from restrike.cards.lora_source import LoraSource, lora_source
from restrike.cards.registry import INDEX, located
from restrike.cards.request_faults import COUNT_LIMIT
from restrike.errors import NotFound, RestrikeError
from restrike.models.pipeline.call import OURS
from restrike.models.pipeline.card import CARD
from restrike.models.pipeline.installed import (
    EXTRA,
    attention_backends,
    is_installed,
    pipelines,
    schedulers,
)
from restrike.models.pipeline.offload import offload_fault
from restrike.models.pipeline.options import PipelineOptions, Quantization, Scheduler
from restrike.models.pipeline.quantizing import quantization_fault
from restrike.workflow.definition import LoraSpec, PipelineSpec, QuantizationSpec
from restrike.workflow.findings import shown
from restrike.workflow.operations.pipeline import COUNT, PipelineCall
from restrike.workflow.operations.site import Built, Site
from restrike.workflow.outcomes import Yield
from restrike.workflow.resolving import has_leaves
from restrike.workflow.values import CLIP_FIELDS

PIPELINE, VARIANT = "pipeline", "variant"
_DENOISERS = ("transformer", "unet", "prior")


def build_pipeline(spec: PipelineSpec, given: Mapping[str, Any], site: Site) -> Built | None:
    """The operation of a checkpoint with its arguments; None, with findings, when it cannot be loaded."""
    before = len(site.findings.found)
    arguments, items = _arguments(given, site)
    found = _checkpoint(spec.checkpoint, site)
    if found is None:
        return None
    location, checkpoint, index = found
    loras = tuple(_loras(spec.loras, site))
    _check_names(spec, site)
    options = PipelineOptions(
        pipeline=spec.class_,
        precision=_precision(spec, site),
        offload=spec.offload,
        attention=spec.attention,
        scheduler=None
        if spec.scheduler is None
        else Scheduler(name=spec.scheduler.class_, options=spec.scheduler.options),
        quantization=None if spec.quantization is None else _quantization(spec.quantization, index, site),
    )
    options = _loaded(spec.load, options, checkpoint, index, site)
    if len(site.findings.found) > before:
        return None
    operation = PipelineCall(
        location=location,
        pipeline=spec.class_ or _class_of(index),
        options=options,
        loras=loras,
        device=site.device,
    )
    return Built(operation=operation, arguments=arguments, gives=Yield(fields=CLIP_FIELDS, items=items))


def _arguments(given: Mapping[str, Any], site: Site) -> tuple[dict[str, Any], int | None]:
    """The call arguments, and how many items the value has; null leaves an argument to the pipeline."""
    for name in given:
        if name == "seed":
            site.findings.add(
                site.argument(name, given), "the seed of a step stands beside its arguments: seed: 3"
            )
        elif name in OURS:
            site.findings.add(site.argument(name, given), f"'{name}' is not free: {OURS[name]}")
    arguments = {name: value for name, value in given.items() if value is not None}
    count = arguments.setdefault(COUNT, 1)
    if has_leaves(count):
        return arguments, None
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= COUNT_LIMIT:
        site.findings.add(
            site.argument(COUNT, given), f"count {shown(count)} is not a whole number from 1 to {COUNT_LIMIT}"
        )
        return arguments, None
    return arguments, count if count > 1 else 0


def _checkpoint(name: str, site: Site) -> tuple[Location, Checkpoint, dict[str, Any]] | None:
    place = site.at(PIPELINE, "checkpoint")
    barred = site.barred(name)
    if barred:
        site.findings.add(place, barred)
        return None
    try:
        location = located(name)
        if location is None:
            raise NotFound(f"no checkpoint folder '{name}', and it is no hub id (owner/name)")
        checkpoint = location.resolve((INDEX,))
        index = checkpoint.json(INDEX)
    except RestrikeError as error:
        site.findings.add(place, error.message)
        return None
    if not _class_of(index):
        site.findings.add(place, f"{INDEX} of '{location}' names no pipeline class (_class_name)")
        return None
    return location, checkpoint, index


def _class_of(index: Mapping[str, Any]) -> str:
    """The class that an index names; one that comes with its own file is named beside it."""
    named = index.get("_class_name") or ""
    return str(named[-1] if isinstance(named, list) else named)


def _components(index: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name, value in index.items()
        if not name.startswith("_") and isinstance(value, list) and any(value)
    ]


def _precision(spec: PipelineSpec, site: Site) -> str | None:
    try:
        return CARD.precision(spec.precision or site.precision)
    except RestrikeError as error:
        site.findings.add(site.at(PIPELINE, "precision"), error.message)
        return None


def _check_names(spec: PipelineSpec, site: Site) -> None:
    try:
        named = (
            ("class", "pipeline class", spec.class_, pipelines()),
            ("scheduler", "scheduler", spec.scheduler and spec.scheduler.class_, schedulers()),
            ("attention", "attention backend", spec.attention, attention_backends()),
        )
    except RestrikeError as error:
        site.findings.add(site.at(PIPELINE), error.message)
        return
    for key, kind, name, exists in named:
        if name is not None and name not in exists:
            place = site.at(PIPELINE, key, "class") if key == "scheduler" else site.at(PIPELINE, key)
            site.findings.unknown(place, f"{kind} in the installed diffusers", name, exists)
    fault = offload_fault(spec.offload, site.device)
    if fault:
        site.findings.add(site.at(PIPELINE, "offload"), fault)


def _loras(specs: list[LoraSpec], site: Site) -> Iterator[LoraSource]:
    for number, spec in enumerate(specs):
        place = site.at(PIPELINE, "loras", number)
        if spec.path is None:
            site.note(f"LoRA '{spec.name or number + 1}' is disabled: its path is null")
            continue
        barred = site.barred(spec.path)
        if barred:
            site.findings.add((*place, "path"), barred)
            continue
        if not is_installed("peft"):
            site.findings.add(place, f"a LoRA needs peft: {EXTRA}")
            continue
        try:
            # A text here is an escaped one: `$$1`.
            scale = float(spec.scale)
            yield lora_source(spec.path, weight_name=spec.weight_name, name=spec.name, scale=scale)
        except ValueError:
            site.findings.add((*place, "scale"), f"scale {shown(spec.scale)} is not a number")
        except RestrikeError as error:
            site.findings.add((*place, "path"), error.message)


def _quantization(spec: QuantizationSpec, index: Mapping[str, Any], site: Site) -> Quantization:
    place = site.at(PIPELINE, "quantization")
    fault = quantization_fault(spec.class_)
    if fault:
        site.findings.add((*place, "class"), fault)
    exists = _components(index)
    for number, name in enumerate(spec.components or ()):
        if name not in exists:
            site.findings.unknown((*place, "components", number), "component", name, exists)
    components = spec.components or [name for name in exists if name.startswith(_DENOISERS)]
    if not components:
        site.findings.add(place, f"say which components are quantized (there is {', '.join(exists)})")
    return Quantization(name=spec.class_, components=tuple(components), options=spec.options)


def _loaded(
    load: Mapping[str, Any],
    options: PipelineOptions,
    checkpoint: Checkpoint,
    index: Mapping[str, Any],
    site: Site,
) -> PipelineOptions:
    """The options with what `load` says: a variant, and components that are left out."""
    exists = _components(index)
    for name, value in load.items():
        place = site.at(PIPELINE, "load", name)
        if name == VARIANT:
            if value is not None and not isinstance(value, str):
                site.findings.add(place, f"variant {shown(value)} is not a text")
        elif name not in exists:
            site.findings.unknown(place, "loading option or component", name, (VARIANT, *exists))
        elif value is not None:
            site.findings.add(place, f"component '{name}' can only be left out, by null, not {shown(value)}")
    without = tuple(sorted(name for name in load if name != VARIANT))
    return replace(options, variant=load.get(VARIANT), without=without)

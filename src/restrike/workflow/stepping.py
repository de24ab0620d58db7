"""Expands the steps of one workflow in the order of data, each to the actions that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from restrike.workflow.chaining import chain
from restrike.workflow.definition import PipelineSpec
from restrike.workflow.elision import Draft
from restrike.workflow.graph import FileInput
from restrike.workflow.level import Level, StepSite
from restrike.workflow.making import Making
from restrike.workflow.members import entries_of
from restrike.workflow.ordering import in_order
from restrike.workflow.outcomes import NOTHING, Many, One, Outcome, Unknown
from restrike.workflow.reading import fault_message
from restrike.workflow.resolving import Entry, has_leaves
from restrike.workflow.results import result_of
from restrike.workflow.sharing import Shared


def expand_level(level: Level, shared: Shared) -> Outcome:
    """Add the actions of a level to those of the expansion; returns what its output step gives."""
    definition = level.reading.definition
    order = in_order(definition, level.at, level.findings)
    # Steps that have findings already: what reads them is not to blame.
    unknown = {*level.reading.broken_steps, *definition.steps} - {*order}
    steps: dict[str, Outcome] = {name: Unknown() for name in unknown}
    for name in order:
        steps[name] = _step(level, name, steps, shared)
    output = definition.output_step
    if output not in steps:
        level.findings.unknown((*level.at, "output"), "step", output, definition.steps)
        return Unknown()
    return steps[output]


def _step(level: Level, name: str, steps: Mapping[str, Outcome], shared: Shared) -> Outcome:
    spec = level.reading.definition.steps[name]
    site = StepSite(level=level, name=name, spec=spec, resolver=level.resolver(steps, shared), shared=shared)
    if spec.for_each is None:
        return _member(site)
    entries = entries_of(spec.for_each, site.resolver, site.at("for_each"))
    if not entries:
        # Its entries have findings; what else it says is still looked at, once.
        _member(site.for_entry(Entry(name="entry", value=NOTHING)))
        return Unknown()
    return Many(members={entry.name: _member(site.for_entry(entry)) for entry in entries})


def _member(site: StepSite) -> Outcome:
    site.shared.look(site.findings)
    if site.spec.workflow is not None:
        from restrike.workflow.nesting import nested

        return nested(site)
    arguments = site.resolver.resolve(site.spec.arguments, site.at("arguments"))
    result = result_of(site.spec.result, site.resolver, site.at("result"))
    what = _what(site)
    if what is None:
        return Unknown()
    making = Making(site=site, what=what, result=result, seed=site.seed(site.level.seed))
    if site.spec.segments is not None:
        return chain(making, site.spec.segments, arguments)
    built = making.build(arguments, site.findings)
    if built is None:
        return Unknown()
    action = making.action(site.id, built, making.seed)
    site.shared.add(Draft(action=action, saves=making.saves, items=built.gives.items))
    return One(action=site.id, gives=built.gives)


def _what(site: StepSite) -> str | PipelineSpec | None:
    """The card, task or pipeline of a step, its references resolved; None when it has findings."""
    kind = site.spec.kind
    if site.spec.pipeline is not None:
        return _pipeline(site, site.spec.pipeline)
    name = site.resolver.constant(getattr(site.spec, kind), site.at(kind))
    if isinstance(name, str):
        return name
    if name is not NOTHING:
        site.findings.add(site.at(kind), f"is the name of a {'card' if kind == 'generate' else kind}")
    return None


def _pipeline(site: StepSite, spec: PipelineSpec) -> PipelineSpec | None:
    place = site.at("pipeline")
    before = len(site.findings.found)
    written = spec.model_dump(by_alias=True, exclude_unset=True)
    # A file here is loaded, not read as media: the loader wants its path and digests what is in it.
    values = _paths(site.resolver.resolve(written, place))
    if has_leaves(values) and len(site.findings.found) == before:
        site.findings.add(place, "is needed before anything runs; it cannot be a step's result")
    if len(site.findings.found) > before or has_leaves(values):
        return None
    try:
        return PipelineSpec.model_validate(values)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            site.findings.add((*place, *fault["loc"]), fault_message(fault, PipelineSpec))
        return None


def _paths(tree: Any) -> Any:
    if isinstance(tree, FileInput):
        return str(tree.path)
    if isinstance(tree, Mapping):
        return {name: _paths(value) for name, value in tree.items()}
    return [_paths(value) for value in tree] if isinstance(tree, list) else tree

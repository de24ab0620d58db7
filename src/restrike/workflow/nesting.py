"""Expands a step that is a workflow: from a file beside this one, or written in its place.

Its arguments are the variables of that workflow, its steps become actions of the same graph.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from restrike.errors import RestrikeError
from restrike.workflow.definition import Definition
from restrike.workflow.findings import Findings, InvalidWorkflow, no_such
from restrike.workflow.level import Level, StepSite
from restrike.workflow.outcomes import NOTHING, Outcome, Unknown
from restrike.workflow.reading import Reading
from restrike.workflow.source import Source, read_file
from restrike.workflow.stepping import expand_level
from restrike.workflow.values_given import passed, seed_of
from restrike.workflow.variables import Specs, checked, is_required, specs_of

MAX_DEPTH = 8


def nested(site: StepSite) -> Outcome:
    """Add the actions of the workflow of a step; returns what its output step gives."""
    if site.level.depth >= MAX_DEPTH:
        site.findings.add(site.at("workflow"), f"workflows are nested deeper than {MAX_DEPTH}")
        return Unknown()
    workflow = site.spec.workflow
    if isinstance(workflow, Definition):
        level = Level(
            reading=Reading(definition=workflow),
            findings=site.findings,
            above=site.level.above,
            at=site.at("workflow"),
        )
        return _expanded(site, level)
    return _of_file(site)


def _of_file(site: StepSite) -> Outcome:
    # Not by the entry: a realized definition has one workflow in the place of this file.
    name = replace(site.resolver, entry=None).constant(site.spec.workflow, site.at("workflow"))
    if not isinstance(name, str):
        if name is not NOTHING:
            site.findings.add(site.at("workflow"), "is the path of a workflow file, or a workflow")
        return Unknown()
    path = _path(site, name)
    source = path and _read(site, name, path)
    if path is None or source is None:
        return Unknown()
    findings = Findings(list(source.findings.found))
    outcome: Outcome = Unknown()
    if source.reading is not None:
        site.shared.inlined[site.root("workflow")] = source
        level = Level(reading=source.reading, findings=findings, above=(*site.level.above, path))
        outcome = _expanded(site, level)
    site.findings.include(site.at("workflow"), name, findings)
    return outcome


def _expanded(site: StepSite, level: Level) -> Outcome:
    definition = level.reading.definition
    specs = specs_of(definition.variables, level.findings, level.at)
    level = replace(
        level.with_variables(_defaults(specs), site.shared),
        root=site.root("workflow"),
        prefix=f"{site.id}/",
        depth=site.level.depth + 1,
    )
    arguments = site.resolver.resolve(site.spec.arguments, site.at("arguments"))
    given = passed(specs, arguments, site.at("arguments"), site.findings)
    level = replace(level, variables={**level.variables, **given})
    own = seed_of(definition.seed, level.resolver({}, site.shared), (*level.at, "seed"))
    inherited = own if isinstance(own, int) else site.level.seed
    if "reuse" in definition.model_fields_set and definition.reuse != site.level.reading.definition.reuse:
        site.shared.notices[f"'{site.step}': its own `reuse` has no effect inside another workflow"] = None
    return expand_level(replace(level, seed=site.seed(inherited)), site.shared)


def _defaults(specs: Specs) -> dict[str, object]:
    return {name: checked(spec.default, spec) for name, spec in specs.items() if not is_required(spec)}


def _path(site: StepSite, name: str) -> Path | None:
    """The file that a step names, beside the one that names it; None, with a finding, when it is barred."""
    above = site.level.above
    base = above[-1].parent if above else site.shared.workspace
    place = site.at("workflow")
    try:
        path = (base / name).resolve()
        roots = (base.resolve(), site.shared.workspace.resolve())
    except (OSError, ValueError, RuntimeError):
        site.findings.add(place, "is no path of a file")
        return None
    if not any(path.is_relative_to(root) for root in roots):
        site.findings.add(
            place, "a workflow file lies in the folder of this one, below it, or in the workspace"
        )
        return None
    if not path.is_file():
        exists = [other.name for kind in ("*.yaml", "*.yml", "*.json") for other in base.glob(kind)]
        site.findings.add(place, no_such("workflow file", name, exists))
        return None
    if path in above:
        circle = [*(file.name for file in above[above.index(path) :]), path.name]
        site.findings.add(place, f"workflows name each other in a circle: {' -> '.join(circle)}")
        return None
    return path


def _read(site: StepSite, name: str, path: Path) -> Source | None:
    sources = site.shared.sources
    try:
        if path not in sources:
            sources[path] = read_file(path)
        return sources[path]
    except InvalidWorkflow as error:
        site.findings.include(site.at("workflow"), name, Findings(list(error.findings)))
    except RestrikeError as error:
        site.findings.add(site.at("workflow"), error.message)
    return None

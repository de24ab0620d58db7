"""From a workflow to its graph: variables, references, members, segments and nested workflows are resolved.

All findings come in one answer. It loads no weights and imports no torch; of media it reads only digests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from restrike.cards.card import ModelCard
from restrike.cards.identity import WeightStamp, stamp_of
from restrike.workflow import seeds
from restrike.workflow.elision import elide
from restrike.workflow.findings import Findings
from restrike.workflow.graph import Graph
from restrike.workflow.level import Level
from restrike.workflow.realizing import realized
from restrike.workflow.results import check_files
from restrike.workflow.sharing import Shared, TooMany
from restrike.workflow.source import Source
from restrike.workflow.stepping import expand_level
from restrike.workflow.tasks.registry import Tasks
from restrike.workflow.values_given import bound, seed_of
from restrike.workflow.variables import specs_of
from restrike.workflow.workspace_files import ASSETS, PROMPTS


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a workflow is expanded for: where it will run, and with which tasks.

    `precision` is a dtype by its torch name, None for each card's own; `weights_now` tells the weights of
    a card there, `cells_now` the keys of the compiled calls that may answer there. `barred` says why a model
    or an adapter may not be named so, None when it may; it is asked before anything is looked for.
    """

    tasks: Tasks
    device: str
    precision: str | None = None
    weights_now: Callable[[ModelCard], WeightStamp] = stamp_of
    cells_now: Callable[[], tuple[str, ...]] = tuple
    barred: Callable[[str], str | None] = lambda location: None


def expand(
    source: Source,
    values: Mapping[str, Any],
    workspace: Path,
    machine: Machine,
    *,
    seed: int | None = None,
    draw: Callable[[], int] = seeds.drawn,
) -> Graph:
    """The graph of a workflow with these values of its variables.

    Args:
        source: the workflow.
        values: of variables, by name; a text is read as the type of its variable.
        workspace: the folder with assets, prompts and earlier runs.
        machine: what it is expanded for.
        seed: takes the place of the workflow's own.
        draw: gives a new seed for each `random`.

    Raises:
        InvalidWorkflow: with all findings at once.
    """
    findings = Findings(list(source.findings.found))
    if source.reading is None:
        findings.check()
    assert source.reading is not None
    definition = source.reading.definition
    if source.name.lower() in (ASSETS, PROMPTS):
        findings.add(("name",), f"'{source.name}' is a folder of every workspace; runs need one of their own")
    shared = Shared(workspace=workspace, machine=machine, draw=draw)
    specs = specs_of(definition.variables, findings)
    written = bound(specs, values, findings)
    above = (source.file,) if source.file else ()
    level = Level(reading=source.reading, findings=findings, above=above)
    level = level.with_variables(written, shared)
    chosen = seed if seed is not None else seed_of(definition.seed, level.resolver({}, shared), ("seed",))
    if isinstance(chosen, int):
        shared.seeds[("seed",)] = chosen
    level = replace(level, seed=shared.drawn(("seed",)))
    try:
        expand_level(level, shared)
    except TooMany as error:
        findings.add(("steps",), str(error))
    findings.check()
    kept = elide(shared.drafts)
    check_files(((draft.action, draft.items) for draft in kept.drafts if draft.action.saves), findings)
    findings.check()
    return Graph(
        name=source.name,
        actions=tuple(draft.action for draft in kept.drafts),
        elided=kept.elided,
        notices=(*shared.notices, *(_elided(name) for name in kept.elided)),
        variables=written,
        seed=level.seed,
        scope=definition.reuse.scope,
        match=definition.reuse.match,
        realized=realized(source, written, specs, shared),
    )


def _elided(name: str) -> str:
    return f"'{name}' does not run: nothing reads it, and it saves nothing"

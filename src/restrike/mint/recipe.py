"""What a recipe does to one traced call: compile it into a folder, and make a callable of that folder.

The one place that knows both recipes by name; all else about a mint is the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from restrike.loops.contract import Tensors
from restrike.mint.cell.facts import Recipe, Target
from restrike.mint.recipes import aot, dynamo
from restrike.mint.recipes.options import Value
from restrike.mint.refusals import Subject
from restrike.mint.warm import Observed


@dataclass(frozen=True, kw_only=True)
class Job:
    """One call to compile: the traced program, the resident component, and what was observed of the call."""

    program: Any
    component: nn.Module
    seen: Observed
    options: Mapping[str, Value]
    target: Target


def compile_into(recipe: Recipe, job: Job, folder: Path, scratch: Path) -> None:
    """Compile into `folder`, which is made; raises what the recipe's `build` raises."""
    if recipe == "aot":
        aot.build(job.program, folder, job.options, job.target, scratch)
    else:
        seen = job.seen
        # The most first: a graph that was made for one row would hold for one row alone.
        probes = [seen.probe(batch) for batch in dict.fromkeys(reversed(seen.shape.batches))]
        dynamo.build(job.component, seen.call, seen.ingress, probes, folder, job.options)


def load(
    recipe: Recipe,
    folder: Path,
    component: nn.Module,
    seen: Observed,
    options: Mapping[str, Value],
    subject: Subject,
) -> Callable[[Tensors], Tensor]:
    """The compiled call on named tensors, bound to the component. Only verified folders may be given here."""
    if recipe == "aot":
        return aot.load(folder, component, tuple(seen.inputs), subject)
    return dynamo.load(folder, component, seen.call, seen.ingress, options)

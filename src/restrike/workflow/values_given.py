"""Binds the variables of a workflow to the values of a run, and reads seeds. Resolves no reference itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restrike.cards.request import SEED_LIMIT
from restrike.workflow.findings import Findings, Place, no_such, shown
from restrike.workflow.outcomes import NOTHING
from restrike.workflow.resolving import Resolver, has_leaves
from restrike.workflow.variables import VARIABLES, Specs, checked, is_required

RANDOM = "random"


def bound(specs: Specs, values: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """Each variable with its value or default; what is wrong is noted at the variable."""
    for name in values:
        if name not in specs:
            findings.add((VARIABLES, name), no_such("variable", name, specs))
    found: dict[str, Any] = {}
    for name, spec in specs.items():
        if name not in values and is_required(spec):
            findings.add((VARIABLES, name), f"has no default and no value; give one: -v {name}=...")
            continue
        try:
            found[name] = checked(values.get(name, spec.default), spec)
        except ValueError as error:
            findings.add((VARIABLES, name), str(error))
    return found


def passed(specs: Specs, arguments: Mapping[str, Any], place: Place, findings: Findings) -> dict[str, Any]:
    """The variables of a nested workflow from the arguments of its step, which are resolved already."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if name not in specs:
            findings.add((*place, name), no_such("variable", name, specs))
            continue
        try:
            found[name] = value if has_leaves(value) else checked(value, specs[name])
        except ValueError as error:
            findings.add((*place, name), str(error))
            found[name] = NOTHING
    for name, spec in specs.items():
        if name not in arguments and is_required(spec):
            findings.add(place, f"the workflow needs a value of its variable '{name}'")
    return found


def seed_of(written: Any, resolver: Resolver, place: Place) -> int | str | None:
    """The seed that is written at a place: a number, `random`, or None for the one that is inherited."""
    value = resolver.constant(written, place)
    if value is None or value is NOTHING or value == RANDOM:
        return None if value is NOTHING else value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= SEED_LIMIT:
        return value
    resolver.findings.add(place, f"{shown(value)} is not an integer from 0 to {SEED_LIMIT}, or '{RANDOM}'")
    return None

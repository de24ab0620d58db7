"""Builds the operation of a `task` step: finds the task, checks the arguments against its signature.

An argument that comes from another step is checked when it is known; all others now, each at its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter
from typing import Any, get_origin, get_type_hints, is_typeddict

from restrike.errors import RestrikeError
from restrike.workflow.findings import no_such
from restrike.workflow.operations.site import ARGUMENTS, Built, Site
from restrike.workflow.operations.task import TaskCall
from restrike.workflow.outcomes import Yield
from restrike.workflow.resolving import has_leaves
from restrike.workflow.tasks.registry import Task
from restrike.workflow.values import CLIP_FIELDS, Clip, Sound

_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def build_task(name: str, given: Mapping[str, Any], site: Site) -> Built | None:
    """The operation of a task with its arguments; None, with a finding, when there is no such task."""
    try:
        task = site.tasks.get(name)
    except RestrikeError as error:
        site.findings.add(site.at("task"), error.message)
        return None
    return Built(
        operation=TaskCall(task=task, device=site.device),
        arguments=_arguments(task, given, site),
        gives=yield_of(task),
    )


def yield_of(task: Task) -> Yield:
    """What a task's return type tells of its value."""
    return _yield_of(task.function)


@cache
def _yield_of(function: Callable[..., Any]) -> Yield:
    kind = get_type_hints(function).get("return", Any)
    if kind is Clip:
        return Yield(fields=CLIP_FIELDS, items=0)
    if get_origin(kind) is list:
        return Yield(fields=CLIP_FIELDS if kind == list[Clip] else None)
    if kind in (str, int, float, bool):
        return Yield(fields=(), items=0)
    if kind is Sound or get_origin(kind) is dict or is_typeddict(kind):
        return Yield(items=0)
    return Yield()


def _arguments(task: Task, given: Mapping[str, Any], site: Site) -> dict[str, Any]:
    parameters = task.parameters()
    named = {name: part for name, part in parameters.items() if part.kind in _NAMED}
    takes_any = any(part.kind is Parameter.VAR_KEYWORD for part in parameters.values())
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name in named:
            found[name] = value if has_leaves(value) else _checked(task, name, value, site)
        elif takes_any:
            found[name] = value
        elif name == "seed" and task.draws:
            site.findings.add(
                site.at(ARGUMENTS, name), "the seed of a step stands beside its arguments: seed: 3"
            )
        else:
            site.findings.add(site.at(ARGUMENTS, name), no_such("argument", name, named))
    for name, part in named.items():
        if name in found:
            continue
        if part.default is Parameter.empty:
            site.findings.add(site.at(ARGUMENTS), f"task '{task.name}' needs the argument '{name}'")
        elif _is_plain(part.default):
            found[name] = _listed(part.default)
    return found


def _checked(task: Task, name: str, value: Any, site: Site) -> Any:
    """The value as the task takes it, so that 2 is 2.0 for a number; as written if that is not plain."""
    try:
        found = task.checked(name, value)
    except ValueError as error:
        site.findings.add(site.at(ARGUMENTS, name), str(error))
        return value
    return _listed(found) if _is_plain(found) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(part) for name, part in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _listed(part) for name, part in value.items()}
    return [_listed(part) for part in value] if isinstance(value, list | tuple) else value

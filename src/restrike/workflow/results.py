"""Checks how a step's value becomes files: container, options, folder, name. It encodes nothing.

Two actions of one run never write the same file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from restrike.errors import Refused
from restrike.media.containers import container_for, meant
from restrike.workflow.definition import ResultSpec
from restrike.workflow.findings import Findings, Place, no_such
from restrike.workflow.graph import Action
from restrike.workflow.naming import file_stem
from restrike.workflow.outcomes import NOTHING
from restrike.workflow.reading import fault_message
from restrike.workflow.resolving import Resolver

MEDIA = ("png", "jpg", "webp", "gif", "mp4", "webm")
CONTAINERS = (*MEDIA, "wav", "txt", "json")
# The run's own files, see `runs`.
_TAKEN = ("manifest.json", "workflow.json")
_MAX_PART_BYTES = 200
_FOLDER = re.compile(r"[^\\:\0]{1,200}")
_NAME = re.compile(r"[^/\\:\0]{1,100}")


def result_of(written: ResultSpec | None, resolver: Resolver, place: Place) -> ResultSpec:
    """The result block with its references resolved; the default block, with findings, when it has faults."""
    if written is None:
        return ResultSpec()
    values = resolver.constant(written.model_dump(exclude_unset=True), place)
    if any(value is NOTHING for value in values.values()):
        return ResultSpec()
    try:
        result = ResultSpec.model_validate(values)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            resolver.findings.add((*place, *fault["loc"][:1]), fault_message(fault, ResultSpec))
        return ResultSpec()
    _check_names(result, place, resolver.findings)
    _check_container(result, place, resolver.findings)
    return result


def check_files(actions: Iterable[tuple[Action, int | None]], findings: Findings) -> None:
    """Note files that two actions would both write; each action comes with its items, None if not known."""
    taken: dict[str, Action] = {}
    uncounted: dict[str, Action] = {}
    for action, items in actions:
        stem = file_stem(action)
        if items is None:
            uncounted[stem.casefold()] = action
        stems = [f"{stem}-{item}" for item in range(items)] if items else [stem]
        suffix = action.result.container
        for name in (f"{stem}.{suffix or '*'}".casefold() for stem in stems):
            other = _other(name, taken)
            if other is not None:
                findings.add(
                    (*action.place, "result", "name"),
                    f"'{other.id}' writes '{name}' too; give one of them another name or folder",
                )
                break
            taken[name] = action
    _check_own(taken, findings)
    _check_uncounted(taken, uncounted, findings)
    _check_folders(taken, findings)


def _check_own(taken: Mapping[str, Action], findings: Findings) -> None:
    """No step writes a file of the run itself; `workflow.*` may turn out to be one."""
    for own in _TAKEN:
        action = _other(own, taken)
        if action is not None:
            findings.add(
                (*action.place, "result", "name"),
                f"'{own}' is a file of the run itself; give '{action.id}' another name or a container",
            )


def _check_uncounted(
    taken: Mapping[str, Action], uncounted: Mapping[str, Action], findings: Findings
) -> None:
    """A list of unknown length writes `name-0`, `name-1` and so on."""
    for name, action in taken.items():
        stem, _, suffix = name.rpartition(".")
        listed, _, number = stem.rpartition("-")
        other = uncounted.get(listed) if number.isdecimal() else None
        if other is not None and (suffix == "*" or other.result.container in (None, suffix)):
            findings.add(
                (*action.place, "result", "name"),
                f"'{other.id}' may write '{name}' too; give one of them another name or folder",
            )


def _check_folders(taken: Mapping[str, Action], findings: Findings) -> None:
    """What one step uses as a folder is not another's file."""
    for name, action in taken.items():
        for folder in PurePosixPath(name).parents:
            other = _other(str(folder), taken) if folder.suffix else None
            if other is not None or str(folder) in _TAKEN:
                whose = f"a file of '{other.id}'" if other else "a file of the run itself"
                findings.add(
                    (*action.place, "result", "folder"), f"'{folder}' is {whose}; choose another folder"
                )


def _other(name: str, taken: Mapping[str, Action]) -> Action | None:
    """Who writes the name already; `a.*` stands for any suffix."""
    stem = name.rpartition(".")[0]
    if name.endswith(".*"):
        return next((taken[key] for s in (*CONTAINERS, "*") if (key := f"{stem}.{s}") in taken), None)
    return taken.get(name) or taken.get(f"{stem}.*")


def _check_names(result: ResultSpec, place: Place, findings: Findings) -> None:
    folder, name = result.folder, result.name
    if folder is not None:
        path = PurePosixPath(folder)
        inside = not path.is_absolute() and ".." not in path.parts and bool(path.parts)
        fits = folder.isprintable() and all(len(part.encode()) <= _MAX_PART_BYTES for part in path.parts)
        if not inside or not fits or not _FOLDER.fullmatch(folder):
            findings.add(
                (*place, "folder"), f"'{folder}' is no folder inside the run's own: a/b, without '..'"
            )
    if name is not None and not (_NAME.fullmatch(name) and name.isprintable() and name.strip(". ") == name):
        findings.add((*place, "name"), f"'{name}' is no file's base name: no slashes, no dot at an end")


def _check_container(result: ResultSpec, place: Place, findings: Findings) -> None:
    container = result.container
    if container is None:
        if result.options:
            findings.add(
                (*place, "options"), "options belong to a container; say which, as in container: mp4"
            )
        return
    if container not in CONTAINERS:
        served = meant(f".{container}")
        nearest = served and served.removeprefix(".")
        findings.add((*place, "container"), no_such("container", container, CONTAINERS, meant=nearest))
        return
    known: tuple[str, ...] = ()
    kind: Any = None
    if container in MEDIA:
        kind = type(container_for(f"file.{container}"))
        known = tuple(part.name for part in fields(kind))
    for name, value in result.options.items():
        at = (*place, "options", name)
        if name not in known:
            findings.add(at, no_such(f"option of {container}", name, known))
        else:
            _check_option(kind, name, value, at, findings)


def _check_option(kind: Any, name: str, value: Any, place: Place, findings: Findings) -> None:
    default = next(part.default for part in fields(kind) if part.name == name)
    if isinstance(default, bool) != isinstance(value, bool):
        findings.add(place, f"{name} is {'true or false' if isinstance(default, bool) else 'a number'}")
        return
    try:
        kind(**{name: value})
    except Refused as error:
        findings.add(place, error.message)

"""Reads the `adapters` of a `generate` step: a list of LoRAs, each a path or a mapping. Reads no file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from restrike.cards.adapters import Adapter
from restrike.workflow.findings import no_such, shown
from restrike.workflow.graph import FileInput
from restrike.workflow.operations.site import ARGUMENTS, Site
from restrike.workflow.resolving import has_leaves

_ADAPTERS = "adapters"
_FIELDS = ("path", "strength", "weight_name", "component")


def adapters_of(value: Any, site: Site) -> tuple[Adapter, ...]:
    """The adapters in their order; what is wrong with an entry becomes a finding at its place.

    An entry whose path is null is left out, and a note says so.
    """
    if value is None:
        return ()
    place = site.at(ARGUMENTS, _ADAPTERS)
    if not isinstance(value, list | tuple):
        site.findings.add(place, f"{shown(value)} is no list of adapters: - path: FILE")
        return ()
    return tuple(_adapters(value, site))


def _adapters(entries: list[Any] | tuple[Any, ...], site: Site) -> Iterator[Adapter]:
    for number, written in enumerate(entries):
        place = site.at(ARGUMENTS, _ADAPTERS, number)
        entry = _with_paths(written)
        if has_leaves(entry):
            site.findings.add(place, "is needed before anything runs; it cannot be a step's result")
            continue
        given = entry if isinstance(entry, Mapping) else {"path": entry}
        for name in given:
            if name not in _FIELDS:
                site.findings.add((*place, name), no_such("field", name, _FIELDS))
        path, strength = given.get("path"), given.get("strength", 1.0)
        if path is None and "path" in given:
            site.note(f"LoRA {number + 1} is disabled: its path is null")
        elif (barred := _barred(written, site)) is not None:
            site.findings.add((*place, "path"), barred)
        elif not isinstance(path, str):
            site.findings.add(
                (*place, "path"), f"path {shown(path)} is no text: a file, a folder or a hub id"
            )
        elif isinstance(strength, bool) or not isinstance(strength, int | float):
            site.findings.add((*place, "strength"), f"strength {shown(strength)} is not a number")
        elif not all(isinstance(given.get(name), str | None) for name in ("weight_name", "component")):
            site.findings.add(place, "weight_name and component are texts")
        else:
            yield Adapter(
                path,
                float(strength),
                weight_name=given.get("weight_name"),
                component=given.get("component"),
            )


def _barred(written: Any, site: Site) -> str | None:
    """Why an adapter may not be named so; a file that a reference stands for was looked at already."""
    path = written.get("path") if isinstance(written, Mapping) else written
    return site.barred(path) if isinstance(path, str) else None


def _with_paths(tree: Any) -> Any:
    """A file here is loaded, not read as media: what is wanted is its path."""
    if isinstance(tree, FileInput):
        return str(tree.path)
    return {name: _with_paths(value) for name, value in tree.items()} if isinstance(tree, Mapping) else tree

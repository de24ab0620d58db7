"""What runs of a workspace left: the newest first, page by page. It reads manifests and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restrike.errors import RestrikeError
from restrike.workflow.runs import MANIFEST, Manifest, RunFolder, list_runs

Place = tuple[int, str]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A run and what it says; `place` is where it stands in the order, for the next page."""

    folder: RunFolder
    manifest: Manifest
    place: Place


def newest(workspace: Path, before: Place | None) -> Iterator[Kept]:
    """The runs that changed last, the newest first, after a place; those that cannot be read are left out."""
    for place, folder in sorted(_places(workspace), key=lambda found: found[0], reverse=True):
        if before is not None and place >= before:
            continue
        try:
            yield Kept(folder=folder, manifest=folder.manifest(), place=place)
        except RestrikeError:  # deleted meanwhile, or damaged
            continue


def prompt_of(definition: Mapping[str, Any], action: str) -> str:
    """The prompt written in what ran, of a step or of an endpoint's payload; "" for none or a reference.

    `definition` is a run's resolved one, and `action` one of its steps, which may be a member of `for_each`.
    """
    steps, payload = definition.get("steps") or {}, definition.get("payload") or {}
    step = steps.get(action.partition("[")[0]) or {}
    prompt = (step.get("arguments") or payload).get("prompt")
    if not isinstance(prompt, str):
        return ""
    return prompt.removeprefix("$") if prompt.startswith("$$") or not prompt.startswith("$") else ""


def _places(workspace: Path) -> Iterator[tuple[Place, RunFolder]]:
    for folder in list_runs(workspace):
        try:
            changed_ns = (folder.path / MANIFEST).stat().st_mtime_ns
        except OSError:
            continue
        yield (changed_ns, folder.name), folder

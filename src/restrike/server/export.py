"""One run as a zip: what ran, what came of it, and the files that went in and came out. Changes nothing."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from restrike.errors import RestrikeError
from restrike.server.assets import Assets
from restrike.server.security.confined import inside
from restrike.server.views import run_view
from restrike.workflow.references import Asset, Output, parse
from restrike.workflow.runs import DEFINITION, MANIFEST, RunFolder


def write_zip(target: BinaryIO, workspace: Path, folder: RunFolder, workspace_name: str) -> None:
    """Write a run: `workflow.json` as it was realized, `manifest.json`, `outputs/` and `inputs/`."""
    manifest = folder.manifest()
    definition = json.loads(folder.definition().read_text(encoding="utf-8"))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(DEFINITION, _json(definition))
        archive.writestr(MANIFEST, _json(run_view(manifest, workspace_name)))
        for step in manifest.steps:
            for file in step.files:
                archive.write(inside(folder.path, file.file, "file"), f"outputs/{file.file}")
        for name, path in sorted(dict(_inputs(workspace, definition)).items()):
            archive.write(path, f"inputs/{name}")


def _inputs(workspace: Path, tree: Any) -> Iterator[tuple[str, Path]]:
    """The files that a definition names and that are still there."""
    if isinstance(tree, dict):
        for value in tree.values():
            yield from _inputs(workspace, value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _inputs(workspace, value)
    elif isinstance(tree, str) and tree.startswith(("$asset.", "$output.")):
        try:
            reference = parse(tree)
            if isinstance(reference, Asset):
                yield f"assets/{reference.path}", Assets(workspace).path(reference.path)
            elif isinstance(reference, Output):
                run = RunFolder.open(workspace, f"{reference.workflow}/{reference.run}")
                yield f"runs/{run.name}/{reference.file}", inside(run.path, reference.file, "file")
        except (RestrikeError, ValueError):
            return


def _json(tree: Any) -> str:
    return json.dumps(tree, indent=2, ensure_ascii=False)

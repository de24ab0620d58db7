"""Pictures that a payload names on a server: assets and files of runs of its workspace, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from restrike.errors import NotFound, Refused
from restrike.workflow.references import Asset, Output, parse
from restrike.workflow.workspace_files import Absent, WorkspaceFiles


def pictures_of(workspace: Path) -> Callable[[str], Path]:
    """Finds the file of a picture by `$asset.NAME` or `$output.WORKFLOW/RUN/FILE`.

    What it gives raises Refused for another text, and NotFound when there is no such file.
    """
    files = WorkspaceFiles(workspace)

    def find(text: str) -> Path:
        try:
            reference = parse(text)
            if isinstance(reference, Asset):
                return files.asset(reference).path
            if isinstance(reference, Output):
                return files.output(reference).path
        except Absent as error:
            raise NotFound(str(error)) from error
        except ValueError:
            pass
        raise Refused(f"'{text[:80]}' is no picture here; write $asset.NAME, or $output.WORKFLOW/RUN/FILE")

    return find

"""`restrike explain`: why each step of a run was reused or computed, and by what. Changes nothing."""

from __future__ import annotations

import json as jsons
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from restrike.cli import verbs
from restrike.cli.server_options import ServerOptions, client_of
from restrike.errors import Refused

_JOB = "job-[0-9a-f]{16}"


@dataclass(frozen=True, kw_only=True)
class Options(ServerOptions):
    """The options of `restrike explain`."""

    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="WORKFLOW/NUMBER, WORKFLOW/latest, or a server's job."),
    ]
    workspace: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where the runs are; RESTRIKE_WORKSPACE, or here.")
    ] = None


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "explain", Options, explain)


def explain(options: Options) -> None:
    """Say of each step of a run why it was reused or computed, and what computed it."""
    is_job = re.fullmatch(_JOB, options.run) is not None
    found = client_of(options).explain(options.run) if is_job else _of_run(options)
    if options.json:
        typer.echo(jsons.dumps({"steps": found}, indent=2, ensure_ascii=False))
        return
    _show(found)


def _of_run(options: Options) -> Sequence[dict[str, Any]]:
    from restrike.cli.session import session_for
    from restrike.settings import settings
    from restrike.workflow.explain import described

    _check_is_no_file(options.run)
    session = session_for(options.workspace or settings().workspace, [], None, None)
    return [described(step) for step in session.explain(options.run)]


def _check_is_no_file(name: str) -> None:
    if Path(name).is_file():
        raise Refused(
            f"'{name}' is a file, and a run is WORKFLOW/NUMBER; "
            f"restrike inspect {shlex.quote(name)} shows what made it, and its cells"
        )


def _show(found: Sequence[dict[str, Any]]) -> None:
    from restrike.cli.tables import Rows, show
    from restrike.keys import Difference

    rows = Rows()
    for step in found:
        rows.section(step["action"])
        rows.add("does", step["label"])
        rows.add("", step["why"])
        for line in step["how"]:
            rows.add("", line)
        for difference in step["differences"]:
            rows.add("differs in", Difference(**difference))
        rows.add("key", (step["key"] or "none")[:16])
        for file in step["files"]:
            rows.add("file", f"{file['file']}{' (reused bytes)' if file['reused'] else ''}")
    show(rows.table)

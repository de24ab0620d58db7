"""`restrike runs`: earlier runs, and doing them again."""

from __future__ import annotations

import json as jsons
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restrike.cli import verbs

if TYPE_CHECKING:
    from restrike.workflow.runs import RunFolder

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="WORKFLOW/NUMBER or WORKFLOW/latest.")]
Workspace = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Where the runs are; RESTRIKE_WORKSPACE, or here.")
]
AllowCode = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="A Python file with tasks of your own; it is run.")
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda:0, ...; the best one if left out.")]


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """The options of `restrike runs list`."""

    workspace: Workspace = None
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a verb on one run."""

    run: RunName
    workspace: Workspace = None
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class AgainOptions(RunOptions):
    """The options of `restrike runs resume` and `rerun`."""

    allow_code: AllowCode = None
    device: Device = None
    precision: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None


@dataclass(frozen=True, kw_only=True)
class RerunOptions(AgainOptions):
    """The options of `restrike runs rerun`."""

    seed: Annotated[
        str, typer.Option(metavar="SEED", help="Another seed, or `random`; the run's own if left out.")
    ] = ""


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    group = verbs.group("List, resume, rerun or delete earlier runs.")
    verbs.add(group, "list", ListOptions, list_all)
    verbs.add(group, "resume", AgainOptions, resume)
    verbs.add(group, "rerun", RerunOptions, rerun)
    verbs.add(group, "delete", RunOptions, delete)
    app.add_typer(group, name="runs")


def _workspace(given: Path | None) -> Path:
    from restrike.settings import settings

    return given or settings().workspace


def list_all(options: ListOptions) -> None:
    """List the runs of a workspace."""
    from restrike.workflow.runs import list_runs

    found = [_summary(folder) for folder in list_runs(_workspace(options.workspace))]
    if options.json:
        typer.echo(jsons.dumps({"runs": found}, indent=2, ensure_ascii=False))
        return
    from restrike.cli.tables import Rows, show

    rows = Rows()
    for run in found:
        steps = f"{run['reused']} reused, {run['computed']} computed, seed {run['seed']}"
        said = run["error"] if run["status"] == "damaged" else f"{run['started']}  {steps}"
        rows.add(run["run"], f"{run['status']:<11}  {said}")
    show(rows.table) if found else typer.echo("no runs yet", err=True)


def _summary(folder: RunFolder) -> dict[str, Any]:
    from restrike.errors import Refused

    try:
        manifest = folder.manifest()
    except Refused as error:
        nothing = {"started": None, "seed": None, "reused": 0, "computed": 0}
        return {"run": folder.name, "status": "damaged", **nothing, "error": error.message}
    return {
        "run": folder.name,
        "status": "interrupted" if manifest.is_interrupted else manifest.status,
        "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(manifest.started)),
        "seed": manifest.seed,
        "reused": sum(step.status == "reused" for step in manifest.steps),
        "computed": sum(step.status == "computed" for step in manifest.steps),
        "error": manifest.error,
    }


def resume(options: AgainOptions) -> None:
    """Go on with an unfinished run in its own folder; finished steps are reused."""
    from restrike.cli.run import shown
    from restrike.cli.session import session_for

    session = session_for(
        _workspace(options.workspace), options.allow_code or [], options.device, options.precision
    )
    shown(session, lambda watch: session.resume(options.run, watch), as_json=options.json)


def rerun(options: RerunOptions) -> None:
    """Run an earlier run's own definition again, as a new run; with its seed or another."""
    from restrike.cli.run import shown
    from restrike.cli.session import session_for
    from restrike.workflow.runs import RunFolder
    from restrike.workflow.session import Asked
    from restrike.workflow.source import read_file

    workspace = _workspace(options.workspace)
    session = session_for(workspace, options.allow_code or [], options.device, options.precision)
    source = read_file(RunFolder.open(workspace, options.run).definition())
    asked = Asked(seed=_seed(options.seed))
    shown(session, lambda watch: session.run(source, asked, watch), as_json=options.json)


def _seed(text: str) -> int | None:
    from restrike.cards.request import SEED_LIMIT
    from restrike.errors import Refused
    from restrike.workflow.seeds import drawn

    if text == "random":
        return drawn()
    if text and not (text.isdecimal() and int(text) <= SEED_LIMIT):
        raise Refused(f"--seed {text} is neither `random` nor a whole number from 0 to {SEED_LIMIT}")
    return int(text) if text else None


def delete(options: RunOptions) -> None:
    """Delete a run with its files; no other run and no kept result needs them."""
    from restrike.workflow.runs import RunFolder

    folder = RunFolder.open(_workspace(options.workspace), options.run)
    folder.delete()
    typer.echo(jsons.dumps({"deleted": folder.name}) if options.json else f"deleted {folder.name}")

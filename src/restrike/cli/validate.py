"""`restrike validate FILE` and `restrike schema`: what is wrong with a workflow, and what one may be."""

from __future__ import annotations

import json as jsons
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from restrike.cli import verbs
from restrike.cli.workflow_options import WorkflowOptions, values_of, workspace_of

if TYPE_CHECKING:
    from restrike.workflow.findings import Finding
    from restrike.workflow.graph import Graph


@dataclass(frozen=True, kw_only=True)
class SchemaOptions:
    """`restrike schema` takes none."""


@dataclass(frozen=True, kw_only=True)
class Options(WorkflowOptions):
    """The options of `restrike validate`."""

    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    verbs.add(app, "validate", Options, validate)
    verbs.add(app, "schema", SchemaOptions, schema)


def schema(options: SchemaOptions) -> None:
    """Print the JSON Schema of workflow files, for editors."""
    from restrike.workflow.definition import json_schema

    typer.echo(jsons.dumps(json_schema(), indent=2, ensure_ascii=False))


def validate(options: Options) -> None:
    """Check a workflow without running it; all findings at once."""
    from restrike.errors import Refused, rule_of
    from restrike.workflow.findings import InvalidWorkflow

    try:
        graph = _expanded(options)
    except InvalidWorkflow as error:
        _show_findings(options, error.findings)
        raise typer.Exit(rule_of(Refused()).exit_code) from error
    if options.json:
        typer.echo(jsons.dumps(_described(graph), indent=2, ensure_ascii=False))
        return
    count = len(graph.actions)
    typer.echo(f"{graph.name}: nothing wrong; {count} step{'' if count == 1 else 's'} would run")
    for notice in graph.notices:
        typer.echo(f"note: {notice}")


def _expanded(options: Options) -> Graph:
    from restrike.workflow.expansion import Machine, expand
    from restrike.workflow.source import read_file
    from restrike.workflow.tasks.registry import Tasks

    source = read_file(options.file)
    # No finding depends on the device.
    machine = Machine(tasks=Tasks(tuple(options.allow_code)), device="cpu")
    return expand(source, values_of(options, source), workspace_of(options), machine)


def _show_findings(options: Options, findings: tuple[Finding, ...]) -> None:
    if options.json:
        found = {"valid": False, "findings": [asdict(finding) for finding in findings]}
        typer.echo(jsons.dumps(found, indent=2, ensure_ascii=False))
        return
    for finding in findings:
        typer.echo(str(finding))


def _described(graph: Graph) -> dict[str, object]:
    return {
        "valid": True,
        "findings": [],
        "workflow": graph.name,
        "steps": [{"id": action.id, "runs": action.operation.label} for action in graph.actions],
        "elided": list(graph.elided),
        "notices": list(graph.notices),
    }

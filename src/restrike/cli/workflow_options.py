"""What all verbs on workflows take: the file, values of variables, the workspace, a user's own tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restrike.errors import Refused
from restrike.settings import settings

if TYPE_CHECKING:
    from restrike.workflow.source import Source

UseCells = Annotated[
    str | None, typer.Option(metavar="MODE", help="Use compiled calls: auto, require or off.")
]
MintMissing = Annotated[
    str | None, typer.Option(metavar="WHEN", help="Compile what is missing meanwhile: background.")
]


@dataclass(frozen=True, kw_only=True)
class WorkflowOptions:
    """The options that say which workflow, with which values, and where."""

    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A workflow in YAML, or in JSON if it ends so.")
    ]
    values: Annotated[
        list[str],
        typer.Option("-v", "--var", metavar="NAME=VALUE", help="A variable's value; may be given often."),
    ] = field(default_factory=list)
    workspace: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where assets, prompts and runs are; RESTRIKE_WORKSPACE, or here."
        ),
    ] = None
    allow_code: Annotated[
        list[Path],
        typer.Option(metavar="FILE", help="A Python file with tasks of your own; it is run."),
    ] = field(default_factory=list)


def values_of(options: WorkflowOptions, source: Source) -> dict[str, Any]:
    """The values that `-v` gives; for a variable of any type read as JSON or a bare word; raises Refused."""
    from restrike.workflow.findings import Findings
    from restrike.workflow.variables import from_texts, specs_of

    # What is wrong with the specs is found again, and told, by the expansion.
    written = source.reading.definition.variables if source.reading else {}
    return from_texts(texts_of(options.values), specs_of(written, Findings()))


def workspace_of(options: WorkflowOptions) -> Path:
    """The folder of assets, prompts and runs; raises Refused when it is something else."""
    found = options.workspace or settings().workspace
    if found.exists() and not found.is_dir():
        raise Refused(f"the workspace '{found}' is not a folder")
    return found


def texts_of(values: list[str]) -> dict[str, str]:
    """'name=value' each; raises Refused."""
    found: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise Refused(f"-v {text} is not NAME=VALUE, such as -v steps=20")
        if name.strip() in found:
            raise Refused(f"-v {name.strip()} is given twice")
        found[name.strip()] = value
    return found

"""`restrike doctor`: what this machine has, what will and will not work and why, and a real self-check."""

from __future__ import annotations

import json as jsons
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from restrike.cli import verbs


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `restrike doctor`."""

    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "doctor", Options, doctor)


def doctor(options: Options) -> None:
    """Say what this machine has, what works and why not, and check the models."""
    from restrike.cli.failures import Unfinished
    from restrike.errors import Crashed

    found = examine()
    ill = [check["card"] for check in found["checks"] if check["faults"]]
    if not options.json:
        from restrike.cli.doctor_table import print_examination

        print_examination(found)
    elif not ill:
        typer.echo(jsons.dumps(found, indent=2))
    if ill:
        raise Unfinished(Crashed(f"the self-check of {', '.join(ill)} failed"), found)


def examine() -> dict[str, Any]:
    """All findings as plain values."""
    from restrike.cli import machine
    from restrike.cli.abilities import abilities
    from restrike.cli.selfcheck import check_all

    return {
        "versions": machine.versions(),
        "devices": machine.devices(),
        "memory": machine.memory(),
        "extras": machine.extras(),
        "hub": machine.hub(),
        "abilities": [asdict(ability) for ability in abilities()],
        "checks": [asdict(check) for check in check_all()],
    }

"""`restrike rerun JOB`: give a server the work of a job once more, as a new job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from restrike.cli import verbs
from restrike.cli.server_options import JobOptions, client_of
from restrike.cli.wait import Output, Wait, submitted
from restrike.errors import Refused


@dataclass(frozen=True, kw_only=True)
class Options(JobOptions):
    """The options of `restrike rerun`."""

    seed: Annotated[int | None, typer.Option(metavar="N", help="Another seed than its own.")] = None
    new_seed: Annotated[bool, typer.Option("--new-seed", help="Draw another seed.")] = False
    client_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The same id again gives the same job.")
    ] = None
    wait: Wait = False
    output: Output = None


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "rerun", Options, rerun)


def rerun(options: Options) -> None:
    """Submit a job's work again, with its seed or another, and print the new id; -o gets its files."""
    if options.new_seed and options.seed is not None:
        raise Refused("say one of --seed N and --new-seed")
    client = client_of(options)
    job = client.rerun(options.job, seed=options.seed, new_seed=options.new_seed, client_id=options.client_id)
    submitted(client, job, wait=options.wait, folder=options.output, as_json=options.json)

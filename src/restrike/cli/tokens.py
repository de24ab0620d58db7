"""`restrike tokens`: who may ask a server that others can reach. It works on the server's own data folder."""

from __future__ import annotations

import json as jsons
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from restrike.cli import verbs
from restrike.cli.serve import Data, DatabaseUrl, check_extra, data_folder

if TYPE_CHECKING:
    from restrike.server.security.tokens import Tokens

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the token is called.")]


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """The options of `restrike tokens list`."""

    data: Data = None
    database: DatabaseUrl = ""
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


@dataclass(frozen=True, kw_only=True)
class NameOptions(ListOptions):
    """The options of a verb on one token."""

    name: Name


@dataclass(frozen=True, kw_only=True)
class NewOptions(NameOptions):
    """The options of `restrike tokens new`."""

    scope: Annotated[
        str, typer.Option(metavar="SCOPE", help="read, run or admin; each may do what those before may.")
    ] = "run"


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    group = verbs.group("Make, list and delete the tokens of a server.")
    verbs.add(group, "new", NewOptions, new)
    verbs.add(group, "list", ListOptions, list_all)
    verbs.add(group, "delete", NameOptions, delete)
    app.add_typer(group, name="tokens")


@contextmanager
def _tokens(options: ListOptions) -> Iterator[Tokens]:
    check_extra()
    from restrike.server.database.connect import Database
    from restrike.server.place import Place
    from restrike.server.security.tokens import Tokens

    place = Place(folder=data_folder(options.data), database=options.database)
    place.make()
    database = Database(place.database_url)
    try:
        database.migrate()
        yield Tokens(database)
    finally:
        database.close()


def new(options: NewOptions) -> None:
    """Make a token and print it; it is kept as a hash, and shown this once."""
    from restrike.server.security.tokens import scopes_of

    scopes = scopes_of([options.scope])
    with _tokens(options) as tokens:
        text = tokens.create(options.name, scopes)
    told = {"name": options.name, "token": text, "scopes": sorted(scopes)}
    typer.echo(jsons.dumps(told, indent=2) if options.json else text)


def list_all(options: ListOptions) -> None:
    """List the tokens of a server; none is shown itself."""
    with _tokens(options) as tokens:
        found = tokens.listed()
    if options.json:
        typer.echo(jsons.dumps({"tokens": [asdict(token) for token in found]}, indent=2))
        return
    from restrike.cli.tables import Rows, show

    rows = Rows()
    for token in found:
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(token.created))
        rows.add(token.name, f"{', '.join(token.scopes)}, made {made}")
    show(rows.table) if found else typer.echo("no tokens", err=True)


def delete(options: NameOptions) -> None:
    """Delete a token: it opens nothing from now on."""
    with _tokens(options) as tokens:
        tokens.delete(options.name)
    typer.echo(jsons.dumps({"deleted": options.name}) if options.json else f"deleted {options.name}")

"""`restrike keys`: whose cells are loaded here, and what signs those made here. Prints no private key."""

from __future__ import annotations

import json as jsons
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restrike.cli import verbs

if TYPE_CHECKING:
    from restrike.mint.cell.keyring import KnownKey

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """The options of `restrike keys new`."""

    name: Annotated[str, typer.Argument(metavar="[NAME]", help="What to sign with: --sign NAME.")] = "local"
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """The options of `restrike keys list`."""

    json: Json = False


@dataclass(frozen=True, kw_only=True)
class TrustOptions:
    """The options of `restrike keys trust`."""

    key: Annotated[str, typer.Argument(metavar="KEY", help="A public key: ed25519:..., or a file with one.")]
    name: Annotated[str, typer.Option(help="What to call it in the list.")] = "trusted"
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class RevokeOptions:
    """The options of `restrike keys revoke`."""

    fingerprint: Annotated[str, typer.Argument(metavar="FINGERPRINT", help="Its first digits, as listed.")]
    reason: Annotated[str, typer.Option(help="Why, for whoever looks later.")] = "revoked by hand"
    json: Json = False


def register(app: typer.Typer) -> None:
    """Add the verb and its own verbs."""
    group = verbs.group("Say whose compiled graphs are loaded.")
    verbs.add(group, "new", NewOptions, new)
    verbs.add(group, "list", ListOptions, list_keys)
    verbs.add(group, "trust", TrustOptions, trust)
    verbs.add(group, "revoke", RevokeOptions, revoke)
    app.add_typer(group, name="keys")


def new(options: NewOptions) -> None:
    """Make a key to sign with, and print the half that others trust."""
    from restrike.cli.cells import writable_cells

    _print(writable_cells().ring.new(options.name), as_json=options.json)


def list_keys(options: ListOptions) -> None:
    """List the keys that are known here, and which of them are trusted."""
    from restrike.cli.cells import open_cells

    found = open_cells().ring.known()
    if options.json:
        typer.echo(jsons.dumps({"keys": [_described(key) for key in found]}, indent=2))
        return
    from restrike.cli.tables import Rows, show

    rows = Rows()
    for key in found:
        mark, style = ("trusted", "green") if key.revoked is None else (f"revoked: {key.revoked}", "red")
        signs = ", signs here" if key.own and key.revoked is None else ""
        rows.add_marked(key.public.fingerprint[:16], mark, style, f"{key.name}{signs}")
        rows.add("", key.public)
    if not found:
        rows.add("no keys", "the first mint makes one; `restrike keys trust KEY` adds another machine's")
    show(rows.table)


def trust(options: TrustOptions) -> None:
    """Load the cells that this key signed."""
    from restrike.cli.cells import writable_cells
    from restrike.mint.cell.signing import PublicKey

    _print(
        writable_cells().ring.trust(PublicKey.parse(_text(options.key)), options.name), as_json=options.json
    )


def revoke(options: RevokeOptions) -> None:
    """Load no cell any more that this key signed; for good."""
    from restrike.cli.cells import writable_cells

    _print(writable_cells().ring.revoke(options.fingerprint, options.reason), as_json=options.json)


def _text(given: str) -> str:
    """A key as it was given, or what the file holds that was given in its place."""
    from restrike.errors import Refused, typed

    if given.startswith("ed25519:"):
        return given
    try:
        with Path(given).open("rb") as file:
            return file.read(200).decode("ascii")
    except UnicodeDecodeError as error:
        raise Refused(f"'{given}' holds no public key") from error
    except (FileNotFoundError, IsADirectoryError) as error:
        raise Refused(f"'{given}' is neither a public key (ed25519:...) nor a file with one") from error
    except OSError as error:
        raise typed(error) from error


def _print(key: KnownKey, *, as_json: bool) -> None:
    typer.echo(jsons.dumps(_described(key), indent=2) if as_json else str(key.public))


def _described(key: KnownKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "fingerprint": key.public.fingerprint,
        "public": str(key.public),
        "own": key.own,
        "revoked": key.revoked,
    }

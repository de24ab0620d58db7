"""`restrike cells`: the compiled graphs that are kept, whether they are whole, and how they get elsewhere."""

from __future__ import annotations

import json as jsons
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restrike.cli import verbs

if TYPE_CHECKING:
    from restrike.keys import Digest
    from restrike.mint.cell.header import Header
    from restrike.mint.cell.host import Host
    from restrike.mint.store.entry import Moved, StoredCell
    from restrike.mint.store.store import CellStore
    from restrike.mint.store.tier import Tier

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Url = Annotated[str, typer.Argument(metavar="[URL]", help="The other place; RESTRIKE_CELLS if left out.")]
Key = Annotated[str, typer.Option("--key", help="Only the cell whose key begins so; all if left out.")]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a verb that looks at all cells."""

    json: Json = False


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """The options of `restrike cells show`."""

    key: Annotated[str, typer.Argument(metavar="KEY", help="The first digits of a key, as listed.")]
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class CollectOptions:
    """The options of `restrike cells gc`."""

    limit: Annotated[str, typer.Option(help="Keep at most this much.")] = "10G"
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class MoveOptions:
    """The options of `restrike cells push` and `pull`."""

    url: Url = ""
    key: Key = ""
    json: Json = False


def register(app: typer.Typer) -> None:
    """Add the verb and its own verbs."""
    group = verbs.group("Look after compiled graphs.")
    verbs.add(group, "list", Options, list_cells)
    verbs.add(group, "show", ShowOptions, show_cell)
    verbs.add(group, "verify", Options, verify)
    verbs.add(group, "gc", CollectOptions, collect)
    verbs.add(group, "push", MoveOptions, push_cells)
    verbs.add(group, "pull", MoveOptions, pull_cells)
    app.add_typer(group, name="cells")


def open_cells() -> CellStore:
    """The cells of this machine's settings: a folder within the store's."""
    from restrike.mint.store.store import CellStore
    from restrike.settings import settings

    return CellStore(settings().store / "cells")


def writable_cells() -> CellStore:
    """The same, for a verb that writes there; raises Refused or Shortfall at once when it cannot."""
    from restrike.mint.store.place import require_writable

    store = open_cells()
    remedy = "set RESTRIKE_STORE to a folder that can be written"
    require_writable(store.root, f"the store at '{store.root}'", remedy)
    return store


def hosts() -> tuple[Host, ...]:
    """What this machine is to a cell: its processor, and each kind of GPU that torch can reach."""
    from restrike.mint.cell.host import cpu_target, cuda_target, this_host, torch_version

    targets = [cpu_target()]
    if not torch_version().endswith("+cpu"):
        import torch

        capabilities = map(torch.cuda.get_device_capability, range(torch.cuda.device_count()))
        targets += [cuda_target(*capability) for capability in sorted(set(capabilities))]
    return tuple(map(this_host, targets))


def list_cells(options: Options) -> None:
    """List the cells that are kept and those that were refused."""
    store = open_cells()
    here = hosts()
    found = [_listed(cell, here) for cell in store.cells()]
    aside = [{**asdict(cell), "path": str(cell.path)} for cell in store.quarantined()]
    if options.json:
        typer.echo(jsons.dumps({"folder": str(store.root), "cells": found, "quarantined": aside}, indent=2))
        return
    from restrike.cli.tables import Rows, show, size_of

    rows = Rows()
    for cell in found:
        about = f"{size_of(cell['size_bytes'])}, {cell['target']}, torch {cell['torch']}"
        good = cell["refusal"] is None
        rows.add_marked(
            cell["key"][:12], "loads here" if good else cell["refusal"], "green" if good else "red", about
        )
    if not found:
        rows.add("no cells", f"in {store.root}; `restrike mint CARD` makes them")
    if aside:
        rows.section("set aside")
    for cell in aside:
        rows.add(cell["key"][:12], f"{cell['reason']}: {cell['detail']}")
    show(rows.table)


def _listed(cell: StoredCell, here: Sequence[Host]) -> dict[str, Any]:
    header = cell.header
    return {
        "key": cell.key.hex,
        "size_bytes": cell.size_bytes,
        "recipe": header.facts.stack.recipe if header else None,
        "target": str(header.facts.target) if header else None,
        "torch": header.facts.stack.torch if header else None,
        "refusal": _misfit(header, here) if header else cell.refusal,
    }


def _misfit(header: Header, here: Sequence[Host]) -> str | None:
    """Why no part of this machine can load the cell; None if one can."""
    from restrike.mint.cell.refusal import CellRefused
    from restrike.mint.cell.verify import verify_any_host

    try:
        verify_any_host(header, here)
    except CellRefused as error:
        return error.reason
    return None


def show_cell(options: ShowOptions) -> None:
    """Show all that a cell says of itself."""
    store = open_cells()
    opened, manifest = store.look(store.find(options.key))
    found = {"key": opened.header.key.hex, "signer": opened.signer.fingerprint, **asdict(opened.header.facts)}
    found["floor"] = asdict(opened.header.floor)
    found |= asdict(manifest.facts)
    found["members"] = [
        {"name": each.name, "size_bytes": each.size_bytes, "sha256": each.digest.hex}
        for each in manifest.members
    ]
    if options.json:
        typer.echo(jsons.dumps(found, indent=2))
        return
    from restrike.cli.cell_table import print_cell

    print_cell(opened, manifest)


def verify(options: Options) -> None:
    """Check every byte and signature again; set aside what is refused."""
    from restrike.errors import Refused

    found = open_cells().verify()
    refused = [{"key": cell.key, "reason": cell.reason, "detail": cell.detail} for cell in found.refused]
    if options.json:
        typer.echo(jsons.dumps({"cells": found.cells, "refused": refused}, indent=2))
    else:
        typer.echo(f"{found.cells} cells: {len(refused)} refused")
    if refused:
        named = ", ".join(f"{cell['key'][:12]} ({cell['reason']})" for cell in refused)
        raise Refused(f"set aside: {named}; `restrike mint` makes them again")


def collect(options: CollectOptions) -> None:
    """Remove leftovers, and the cells not used for longest over the limit."""
    from restrike.settings import size_bytes

    found = writable_cells().collect(size_bytes("--limit", options.limit))
    if options.json:
        typer.echo(jsons.dumps(asdict(found), indent=2))
        return
    from restrike.cli.tables import size_of

    typer.echo(
        f"{size_of(found.freed_bytes)} freed: {found.evicted} cells over the limit, "
        f"{found.partial} leftovers, {found.quarantined} cells set aside long ago, "
        f"{found.dead_leases} leases of dead processes"
    )


def push_cells(options: MoveOptions) -> None:
    """Send cells to another place."""
    from restrike.mint.store.moving import push

    store = open_cells()
    keys = [store.find(options.key)] if options.key else [cell.key for cell in store.cells()]
    _report(push(store, _tier(options.url), keys), "sent", as_json=options.json)


def pull_cells(options: MoveOptions) -> None:
    """Fetch the cells that this machine can load from another place."""
    from restrike.mint.store.moving import pull

    store, tier = writable_cells(), _tier(options.url)
    keys = [_one(tier.keys(), options.key)] if options.key else tier.keys()
    _report(pull(store, tier, hosts(), keys), "fetched", as_json=options.json)


def _tier(url: str) -> Tier:
    from restrike.errors import Refused
    from restrike.mint.store.tier import Tier
    from restrike.settings import settings

    if url:
        return Tier(url)
    if not settings().cells:
        raise Refused("name the other place: a URL such as s3://bucket/cells, or set RESTRIKE_CELLS")
    return Tier(settings().cells, setting="RESTRIKE_CELLS")


def _one(keys: Sequence[Digest], prefix: str) -> Digest:
    from restrike.errors import NotFound, Refused

    found = [key for key in keys if key.hex.startswith(prefix)]
    if not found:
        raise NotFound(f"no cell there has a key that begins with '{prefix}'")
    if len(found) > 1:
        raise Refused(f"several keys begin with '{prefix}'; give more digits")
    return found[0]


def _report(moved: Moved, done: str, *, as_json: bool) -> None:
    from restrike.errors import Refused

    if as_json:
        found = {
            "moved": [key.hex for key in moved.moved],
            "already": moved.already,
            "refused": moved.refused,
        }
        typer.echo(jsons.dumps(found, indent=2))
    else:
        typer.echo(f"{len(moved.moved)} cells {done}, {moved.already} were there")
    if moved.refused:
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(moved.refused.items()))
        raise Refused(f"not {done}: {counts}")

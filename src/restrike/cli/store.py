"""`restrike store`: what is kept, whether it is whole, and what may go."""

from __future__ import annotations

import json as jsons
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restrike.cli import verbs

if TYPE_CHECKING:
    from restrike.store.entry import Entry
    from restrike.store.store import Store

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
KeyPrefix = Annotated[
    str, typer.Argument(metavar="KEY", help="The first digits of a key, as `explain` shows it.")
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a verb that looks at the whole store."""

    json: Json = False


@dataclass(frozen=True, kw_only=True)
class CollectOptions:
    """The options of `restrike store gc`."""

    limit: Annotated[str, typer.Option(help="Keep at most this much, such as 20G; as set if left out.")] = ""
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class PinOptions:
    """The options of `restrike store pin`."""

    key: KeyPrefix
    off: Annotated[bool, typer.Option("--off", help="Let it go again.")] = False
    reason: Annotated[str, typer.Option(help="Why, for whoever looks later.")] = "pinned by hand"


@dataclass(frozen=True, kw_only=True)
class ExplainOptions:
    """The options of `restrike store explain`."""

    key: KeyPrefix
    json: Json = False


def register(app: typer.Typer) -> None:
    """Add the verb and its own verbs."""
    group = verbs.group("Look after the results that are kept.")
    verbs.add(group, "stats", Options, stats)
    verbs.add(group, "verify", Options, verify)
    verbs.add(group, "gc", CollectOptions, collect)
    verbs.add(group, "pin", PinOptions, pin)
    verbs.add(group, "explain", ExplainOptions, explain)
    app.add_typer(group, name="store")


def open_store() -> Store:
    """The store of this machine's settings; says on stderr when its index had to be begun anew."""
    from restrike.settings import settings
    from restrike.store.store import Store

    chosen = settings()
    store = Store(chosen.store, limit_bytes=chosen.store_limit_bytes)
    if store.notice:
        typer.echo(store.notice, err=True)
    return store


def stats(options: Options) -> None:
    """Show what is kept and what it took to compute."""
    store = open_store()
    found = store.stats()
    if options.json:
        typer.echo(jsons.dumps({"folder": str(store.root), **asdict(found)}, indent=2))
        return
    from restrike.cli.tables import Rows, show, size_of

    rows = Rows()
    rows.add("folder", store.root)
    rows.add("kept", f"{found.entries} results, {size_of(found.size_bytes)} in {found.blobs} blobs")
    rows.add("limit", size_of(found.limit_bytes))
    rows.add("took", f"{found.seconds:.1f} s to compute")
    rows.add("pinned", found.pinned)
    rows.section("by operation")
    for label, count in sorted(found.by_label.items(), key=lambda item: -item[1]):
        rows.add(label, count)
    show(rows.table)


def verify(options: Options) -> None:
    """Digest everything again; set damaged things aside."""
    from restrike.errors import Refused

    found = open_store().verify()
    if options.json:
        typer.echo(jsons.dumps(asdict(found), indent=2))
    else:
        typer.echo(f"{found.entries} results, {found.blobs} blobs: {len(found.damaged)} damaged")
    if found.damaged:
        raise Refused(f"damaged and forgotten: {', '.join(found.damaged)}; the next run computes them again")


def collect(options: CollectOptions) -> None:
    """Remove what nothing needs and what is over the limit."""
    from restrike.settings import size_bytes

    found = open_store().collect(size_bytes("--limit", options.limit) if options.limit else None)
    if options.json:
        typer.echo(jsons.dumps(asdict(found), indent=2))
        return
    from restrike.cli.tables import size_of

    typer.echo(
        f"{size_of(found.freed_bytes)} freed: {found.evicted} results over the limit, {found.orphans} blobs "
        f"that nothing names, {found.partial} leftovers, {found.dead_leases} leases of dead processes"
    )


def pin(options: PinOptions) -> None:
    """Keep a result whatever the limit says."""
    store = open_store()
    entry = store.find(options.key)
    store.pin(entry.key, None if options.off else options.reason)
    typer.echo(f"{entry.label} {entry.key.digest.short} {'may go' if options.off else 'stays'}")


def explain(options: ExplainOptions) -> None:
    """Show all that decided a kept result, and the nearest earlier one."""
    store = open_store()
    entry = store.find(options.key)
    nearest = store.nearest(entry.key, entry.label, before=entry.created)
    differences = nearest.diff(entry.key) if nearest else ()
    if options.json:
        typer.echo(jsons.dumps(_described(entry) | {"nearest": list(map(str, differences))}, indent=2))
        return
    from restrike.cli.tables import Rows, show

    rows = Rows()
    for name, value in _described(entry).items():
        if name != "parts":
            rows.add(name, value)
    rows.section("key")
    for name, value in entry.key.parts.items():
        rows.add(name, value)
    if nearest is not None:
        rows.section(f"differs from the nearest earlier one, {nearest.digest.short}, in")
        for difference in differences:
            rows.add("", difference)
    show(rows.table)


def _described(entry: Entry) -> dict[str, Any]:
    return {
        "operation": entry.label,
        "key": entry.key.digest.hex,
        "value": entry.value.hex,
        "size_bytes": entry.size_bytes,
        "seconds": round(entry.seconds, 3),
        "uses": entry.uses,
        "first computed by": entry.origin,
        "pinned": entry.pinned,
        "parts": {name: repr(value) for name, value in entry.key.parts.items()},
    }

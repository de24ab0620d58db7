"""`restrike kernels`: which kernel each op may run with on a device, and why; told without torch."""

from __future__ import annotations

import json as jsons
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from restrike.cli import verbs


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `restrike kernels`."""

    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="NAME",
            help="A device (cpu, cuda, cuda:1), or an architecture (sm_90) that need not be here.",
        ),
    ] = None
    variant: Annotated[
        str | None,
        typer.Option(
            "--variant",
            metavar="NAME",
            help="What a kernel must promise: reference, exact or fast; RESTRIKE_KERNELS, or exact.",
        ),
    ] = None
    measure: Annotated[
        bool, typer.Option("--measure", help="Prove and time each kernel against its reference here.")
    ] = False
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "kernels", Options, kernels)


def kernels(options: Options) -> None:
    """Show which kernel each op may run with on a device, and why."""
    found = findings(options)
    if options.json:
        typer.echo(jsons.dumps(found, indent=2))
    else:
        _print(found)


def findings(options: Options) -> dict[str, Any]:
    """The table as plain values, with `measurements` when they are asked for.

    Raises:
        Unknown: no such device or variant.
        Refused: measurements are asked for on a device that is not here.
    """
    from restrike.engine.kernels.table import REGISTRY
    from restrike.engine.kernels.target import here, target_of
    from restrike.settings import settings

    variant = options.variant or settings().kernels
    target = here() if options.device is None else target_of(options.device)
    ops = [
        {
            "op": op.name,
            "summary": op.summary,
            "kernels": [
                {
                    "place": standing.place.value,
                    "variant": standing.cell.variant,
                    "device": standing.cell.device,
                    "kernel": standing.cell.summary,
                    "why": standing.why,
                }
                for standing in REGISTRY.standings(op.name, target, variant)
            ],
        }
        for op in REGISTRY.ops
    ]
    found = {"device": str(target), "variant": variant, "ops": ops}
    return found | ({"measurements": _measured(options.device, variant)} if options.measure else {})


def _measured(device: str | None, variant: str) -> list[dict[str, Any]]:
    from restrike.engine.devices import available
    from restrike.errors import Refused

    present = available()
    name = {"cuda": "cuda:0", None: present[0]}.get(device, device)
    if name not in present:
        raise Refused(f"--measure needs a device that torch sees here ({', '.join(present)}), not '{device}'")
    from restrike.engine.kernels.samples import measured

    return [
        {
            "op": sample.op,
            "size": sample.label,
            "variant": verdict.cell.variant,
            "kernel": verdict.cell.summary,
            "dtype": verdict.dtype,
            "timing": None if verdict.timing is None else asdict(verdict.timing),
            "chosen": verdict.chosen,
            "why": verdict.why,
        }
        for sample, verdict in measured(name, variant)
    ]


def _print(found: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from restrike.cli.tables import show

    table = Table.grid(padding=(0, 2))
    for _ in range(4):
        table.add_column(overflow="fold")
    for op in found["ops"]:
        table.add_row()
        for place, kernel in enumerate(op["kernels"]):
            name = Text(op["op"] if place == 0 else "", style="cyan")
            absent = "dim" if kernel["place"] == "not here" else ""
            lines = (kernel["place"], f"{kernel['variant']}, {kernel['device']}")
            reason = f"{kernel['kernel']}: {kernel['why']}"
            table.add_row(name, *(Text(line, style=absent) for line in (*lines, reason)))
    heading = f"{found['device']}, kernels up to '{found['variant']}'"
    show(Text(heading, style="bold"), table, *_measurements(found))


def _measurements(found: dict[str, Any]) -> list[Any]:
    if "measurements" not in found:
        return []
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for _ in range(5):
        table.add_column(overflow="fold")
    for each in found["measurements"]:
        timing = each["timing"]
        times = (
            f"{_time(timing['reference_s'])} to {_time(timing['kernel_s'])}, {timing['ratio']:.2f}x"
            if timing
            else ""
        )
        table.add_row(Text(each["op"], style="cyan"), each["size"], each["kernel"], times, each["why"])
    nothing = Text("no kernel but the references serves this device")
    return [Text("\nmeasured here", style="bold"), table if found["measurements"] else nothing]


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"

"""How `restrike cards show` looks. Shows what it is given and looks nothing up."""

from __future__ import annotations

from typing import Any

from restrike.cli.tables import Rows, show, size_of


def print_card(card: dict[str, Any]) -> None:
    """Print the card that `cards.show` describes."""
    rows = Rows()
    for name in ("name", "description", "license", "architecture", "weights"):
        rows.add(name, card[name])
    rows.add("makes", ", ".join(card["tasks"]))
    rows.add("precisions", ", ".join(card["precisions"]))
    if card["pipelines"]:
        rows.add("serves", ", ".join(card["pipelines"]))
    for axis, allowed in card["geometry"].items():
        rows.add(axis, allowed)
    _recipe(rows, card["recipe"], card["lineage"])
    _loops(rows, card["loops"])
    rows.section("defaults")
    for name, value in card["defaults"].items():
        if value != "":
            rows.add(name, value)
    rows.section("components")
    for part in card["components"]:
        _component(rows, part)
    show(rows.table)


def _recipe(rows: Rows, recipe: dict[str, Any], lineage: list[dict[str, Any]]) -> None:
    least, most = recipe["steps"]
    steps = f"{least}" if least == most else f"{least} to {most}"
    rows.section("recipe")
    rows.add("method", recipe["method"])
    rows.add("steps", steps)
    for ancestor in lineage:
        label = "made from" if ancestor["generation"] == 1 else "and that from"
        rows.add(label, f"{ancestor['name']} ({ancestor['method'] or 'not installed'})")


def _loops(rows: Rows, loops: list[dict[str, Any]]) -> None:
    for loop in loops:
        rows.section(f"loop {loop['name']}")
        rows.add("serves", ", ".join(loop["tasks"]))
        rows.add("reads", ", ".join(loop["components"]))
        if loop["solvers"]:
            rows.add("solvers", ", ".join(loop["solvers"]))
        rows.add("guidance", ", ".join(loop["guidance"]))
        if loop["weights"]:
            rows.add("weights", loop["weights"])


def _component(rows: Rows, part: dict[str, Any]) -> None:
    files = ", ".join(part["files"])
    if part["identity"] is None:
        rows.add(part["name"], f"{files} ({'optional' if part['optional'] else 'not here yet'})")
    else:
        rows.add(part["name"], f"{size_of(part['size_bytes'])}, {part['identity']}")
        rows.add("", files, style="dim")

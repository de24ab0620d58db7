"""How `restrike doctor` looks. Shows what it is given and finds out nothing."""

from __future__ import annotations

from typing import Any

from restrike.cli.tables import Rows, show, size_of


def print_examination(found: dict[str, Any]) -> None:
    """Print what `doctor.examine` found."""
    rows = Rows()
    rows.add("versions", ", ".join(f"{name} {v}" for name, v in found["versions"].items() if v))
    for device in found["devices"]:
        rows.add(device["name"], _device(device))
        rows.add("", f"an engine uses up to {size_of(device['limit_bytes'])}: {device['limit_why']}")
    rows.add("memory", _memory(found["memory"]))
    for name, packages in found["extras"].items():
        lacking = [package for package, version in packages.items() if version is None]
        rows.add(f"extra {name}", f"lacks {', '.join(lacking)}" if lacking else "installed")
    _hub(rows, found["hub"])
    rows.section("what works")
    for ability in found["abilities"]:
        mark, style = ("yes", "green") if ability["works"] else ("no", "yellow")
        rows.add_marked(ability["name"], mark, style, ability["why"])
    rows.section("self-check")
    for check in found["checks"]:
        if check["faults"]:
            rows.add_marked(check["card"], "fails", "red", "; ".join(check["faults"]))
        else:
            pace, held = f"{check['seconds']:.2f} s a picture of few steps", size_of(check["resident_bytes"])
            why = f"the same bytes twice, and interleaved; {pace}; holds {held} of memory"
            rows.add_marked(check["card"], "well", "green", why)
    show(rows.table)


def _device(device: dict[str, Any]) -> str:
    if "total_bytes" in device:
        return f"{device['model']}, {_memory(device)}"
    if "threads" in device:
        threads = device["threads"]
        return f"{device['model']}, {threads} thread{'' if threads == 1 else 's'}"
    return "Metal"


def _memory(found: dict[str, Any]) -> str:
    if not found["total_bytes"]:
        return "not told by this system"
    total = size_of(found["total_bytes"])
    return f"{total}, {size_of(found['free_bytes'])} of it free" if found["free_bytes"] else total


def _hub(rows: Rows, hub: dict[str, Any]) -> None:
    cached = ", ".join(hub["cached"]) or "nothing"
    rows.add("hub cache", f"{hub['cache']}: {cached}")
    for name, value in hub["variables"].items():
        rows.add("", f"{name}={value}")
    rows.add("hub token", "set" if hub["token"] else "none")

"""Tables on stdout: names on the left, values on the right, never a line cut off."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from restrike.errors import printable

PIPE_WIDTH = 120
"""Columns where stdout is no terminal: a file or a pipe has no width of its own."""


def show(*parts: RenderableType) -> None:
    """Print on stdout; where that is no terminal, without the blanks that fill up a line."""
    if sys.stdout.isatty():
        Console(highlight=False).print(*parts, sep="\n")
        return
    plain = Console(highlight=False, width=PIPE_WIDTH)
    with plain.capture() as captured:
        plain.print(*parts, sep="\n")
    typer.echo("\n".join(line.rstrip() for line in captured.get().rstrip().splitlines()))


class Rows:
    """A table of names and values in the making; `section` starts a titled part of it."""

    def __init__(self) -> None:
        self.table = Table.grid(padding=(0, 2))
        self.table.add_column(style="cyan", no_wrap=True)
        self.table.add_column(overflow="fold")

    def add(self, name: str, value: object, style: str = "") -> None:
        """A row; the value is shown as it is, brackets and all, but steers no terminal."""
        self.table.add_row(Text(printable(name)), Text(printable(str(value)), style=style))

    def add_marked(self, name: str, mark: str, style: str, value: object) -> None:
        """A row whose value begins with a coloured word."""
        self.table.add_row(Text(name), Text.assemble((mark, style), printable(f", {value}")))

    def section(self, title: str) -> None:
        """A heading, and a blank line above it unless it is the first."""
        if self.table.row_count:
            self.table.add_row()
        self.table.add_row(Text(title, style="bold"))


def size_of(size_bytes: int) -> str:
    """Bytes for a person: '1.2 MB'; decimal units, as disks and downloads have."""
    value = float(size_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def listed(entries: Mapping[str, Sequence[str]]) -> Table:
    """Each name with its lines beside it, the first line plain and the others dim."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for position, (name, lines) in enumerate(entries.items()):
        if position:
            table.add_row()
        text = Text(lines[0])
        text.append("".join(f"\n{line}" for line in lines[1:]), style="dim")
        table.add_row(Text(name), text)
    return table

"""`restrike inspect FILE`: what is in a file, and what made it."""

from __future__ import annotations

import json as jsons
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restrike.cli import verbs

if TYPE_CHECKING:
    from restrike.media import Media

_NO_CELLS = "none are named; of a run's file, restrike explain RUN tells"
"""A run's file does not say what answered its forwards: the manifest does."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `restrike inspect`."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="A PNG, JPEG, WebP, GIF, MP4 or WebM file.")]
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "inspect", Options, inspect)


def inspect(options: Options) -> None:
    """Show what a file holds and what made it."""
    from restrike.media import read

    found = facts(options.file, read(options.file))
    if options.json:
        typer.echo(jsons.dumps(found, indent=2))
    else:
        _table(found)


def facts(path: Path, media: Media) -> dict[str, Any]:
    """All that a file tells, as plain values; `provenance` is None for a file of another program."""
    count, height_px, width_px, _ = media.frames_THWC.shape
    audio = media.audio
    return {
        "file": str(path),
        "container": media.container.name,
        "size_bytes": path.stat().st_size,
        "width": width_px,
        "height": height_px,
        "frames": count,
        "fps": media.fps,
        "audio": None if audio is None else {"rate_hz": audio.rate_hz, "channels": len(audio.samples_CN)},
        "provenance": None if media.provenance is None else asdict(media.provenance),
    }


def _table(found: dict[str, Any]) -> None:
    from restrike.cli.tables import Rows, show, size_of

    rows = Rows()
    rows.add("file", found["file"])
    rows.add("container", f"{found['container']}, {size_of(found['size_bytes'])}")
    rows.add("picture", _picture(found))
    if found["audio"]:
        rows.add("sound", f"{found['audio']['channels']} channel(s), {found['audio']['rate_hz']} Hz")
    made = found["provenance"]
    if made is None:
        rows.add("made by", "another program: the file carries no provenance of Restrike")
        show(rows.table)
        return
    by_task = made["card"].startswith("task ")
    rows.add("made by" if by_task else "card", made["card"])
    if not by_task:
        rows.add("weights", made["weights"])
        for name, version in made["weight_versions"].items():
            rows.add("synced", f"{name} to version {version}")
        rows.add("seed", f"{made['seed']}, picture {made['item']}")
        rows.add("cells", ", ".join(key[:16] for key in made["cells"]) or _NO_CELLS)
    rows.section("arguments")
    for name, value in made["arguments"].items():
        if value not in (None, {}, []):
            rows.add(name, value if isinstance(value, str) else jsons.dumps(value))
    rows.section("versions")
    for name, version in made["versions"].items():
        rows.add(name, version)
    rows.section("make it again")
    if by_task:
        rows.add("", "run the workflow.json beside the file, or its run: restrike runs rerun RUN")
    else:
        rows.add("", f"restrike generate --from {shlex.quote(found['file'])}")
    show(rows.table)


def _picture(found: dict[str, Any]) -> str:
    size = f"{found['width']}x{found['height']}"
    if found["frames"] == 1:
        return size
    if found["fps"] is None:
        return f"{size}, {found['frames']} frames"
    seconds = found["frames"] / found["fps"]
    return f"{size}, {found['frames']} frames at {found['fps']:g} a second ({seconds:.1f} s)"

"""The options of a generation, declared once: what a person may say, in words of the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from restrike.cards.registry import DEFAULT

_WHAT, _SAMPLING, _OUTPUT, _MACHINE = "What to make", "Sampling", "Output", "Machine"


def _option(*names: str, group: str, help: str, metavar: str | None = None) -> Any:
    """An option without its type and default in the help: the metavar and the text say both."""
    return typer.Option(*names, rich_help_panel=group, help=help, metavar=metavar, show_default=False)


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """What decides the pixels, one value a flag; None means that the flag was not given."""

    prompt: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="What to make, in quotes. Left out only with --from."),
    ] = None
    card: Annotated[
        str | None,
        _option(
            "--card", group=_WHAT, metavar="NAME|FOLDER|HUB_ID", help=f"The model, by default {DEFAULT}."
        ),
    ] = None
    negative: Annotated[
        str | None, _option("--negative", group=_WHAT, metavar="PROMPT", help="What to steer away from.")
    ] = None
    image: Annotated[
        Path | None, _option("--image", group=_WHAT, metavar="FILE", help="The picture to start from.")
    ] = None
    lora: Annotated[
        list[str],
        _option(
            "--lora",
            group=_WHAT,
            metavar="FILE[:STRENGTH]",
            help="A LoRA: a file, a folder or a hub id; repeatable. COMPONENT=FILE sends it to one part.",
        ),
    ] = field(default_factory=list)
    size: Annotated[
        str | None, _option("--size", group=_WHAT, metavar="WxH", help="Width and height in pixels.")
    ] = None
    frames: Annotated[
        int | None, _option("--frames", group=_WHAT, metavar="N", help="Frames of a clip; 1 is a still.")
    ] = None
    fps: Annotated[float | None, _option("--fps", group=_WHAT, metavar="RATE", help="Frames a second.")] = (
        None
    )
    seed: Annotated[
        int | None,
        _option("--seed", group=_WHAT, metavar="N", help="Decides all noise; drawn and told when left out."),
    ] = None
    count: Annotated[
        int | None, _option("-n", "--count", group=_WHAT, metavar="N", help="How many pictures to make.")
    ] = None
    item: Annotated[
        int | None,
        _option("--item", group=_WHAT, metavar="K", help="Picture K of a batch alone, with the same bytes."),
    ] = None
    source: Annotated[
        Path | None,
        _option("--from", group=_WHAT, metavar="FILE", help="Make a file again; other flags override."),
    ] = None
    steps: Annotated[
        int | None, _option("--steps", group=_SAMPLING, metavar="N", help="Denoising steps.")
    ] = None
    guidance: Annotated[
        float | None,
        _option("--guidance", group=_SAMPLING, metavar="SCALE", help="How strongly the prompt steers."),
    ] = None
    guidance_2: Annotated[
        float | None,
        _option("--guidance-2", group=_SAMPLING, metavar="SCALE", help="The same for a second expert."),
    ] = None
    guidance_mode: Annotated[
        str | None,
        _option("--guidance-mode", group=_SAMPLING, metavar="MODE", help="none, cfg, batched or embedded."),
    ] = None
    guidance_interval: Annotated[
        tuple[float, float] | None,
        _option(
            "--guidance-interval", group=_SAMPLING, metavar="LO HI", help="The range of sigma that is guided."
        ),
    ] = None
    guidance_every: Annotated[
        int | None,
        _option("--guidance-every", group=_SAMPLING, metavar="N", help="Renew the guidance every N steps."),
    ] = None
    solver: Annotated[
        str | None, _option("--solver", group=_SAMPLING, metavar="NAME", help="euler, unipc, sde, ...")
    ] = None
    shift: Annotated[
        float | None,
        _option("--shift", group=_SAMPLING, metavar="FACTOR", help="Moves the schedule to the noisy end."),
    ] = None
    sigmas: Annotated[
        str | None,
        _option("--sigmas", group=_SAMPLING, metavar="S,S,...", help="The schedule itself, without its 0."),
    ] = None
    settings: Annotated[
        list[str],
        _option(
            "--set", group=_SAMPLING, metavar="KEY=VALUE", help="A pipeline's own call argument; repeatable."
        ),
    ] = field(default_factory=list)
    exact: Annotated[
        bool, _option("--exact", group=_SAMPLING, help="Refuse whatever would change the result.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Options(RequestOptions):
    """The options of `restrike generate`."""

    output: Annotated[
        Path | None,
        _option("-o", "--output", group=_OUTPUT, metavar="FILE", help="Its suffix is the kind of file."),
    ] = None
    native: Annotated[
        bool, _option("--native", group=_OUTPUT, help="Do not enlarge tiny pictures for the eye.")
    ] = False
    lossless: Annotated[
        bool, _option("--lossless", group=_OUTPUT, help="Keep every pixel (.webp, .webm; .png always does).")
    ] = False
    preview: Annotated[
        bool | None,
        _option("--preview/--no-preview", group=_OUTPUT, help="Show the picture while it is made."),
    ] = None
    json: Annotated[bool, _option("--json", group=_OUTPUT, help="Print one JSON object.")] = False
    device: Annotated[
        str | None,
        _option(
            "--device", group=_MACHINE, metavar="NAME", help="cpu, cuda, cuda:1, mps; by default the best."
        ),
    ] = None
    precision: Annotated[
        str | None,
        _option("--precision", group=_MACHINE, metavar="DTYPE", help="float32, bfloat16 or float16."),
    ] = None
    capture: Annotated[
        str | None,
        _option(
            "--capture", group=_MACHINE, metavar="MODE", help="Replay steps as graphs: auto, off, tape, cuda."
        ),
    ] = None
    cells: Annotated[
        str | None,
        _option("--cells", group=_MACHINE, metavar="MODE", help="Use compiled calls: auto, require or off."),
    ] = None
    mint: Annotated[
        str | None,
        _option(
            "--mint", group=_MACHINE, metavar="WHEN", help="Compile what is missing meanwhile: background."
        ),
    ] = None
    batch: Annotated[
        int | None,
        _option(
            "--batch",
            group=_MACHINE,
            metavar="N",
            help="Make up to N pictures at once; the same within a tolerance.",
        ),
    ] = None
    extension: Annotated[
        list[str],
        _option("--extension", group=_MACHINE, metavar="NAME", help="An installed extension; repeatable."),
    ] = field(default_factory=list)
    trust_remote_code: Annotated[
        bool, _option("--trust-remote-code", group=_MACHINE, help="Run code that a checkpoint brings along.")
    ] = False

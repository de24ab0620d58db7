"""Where the pictures go: names, kinds, sizes of files. Writes nothing; refuses before any work is done."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from restrike.cards.card import Task
from restrike.cards.request import Arguments
from restrike.errors import Refused
from restrike.media import Container, Jpeg, Png, WebM, WebP, check_target

EYE_PX = 256
"""A picture whose shorter side has fewer pixels is enlarged: it would be a stamp on a screen."""

_SLUG_CHARACTERS = 48


@dataclass(frozen=True, kw_only=True)
class Target:
    """One file to be written."""

    path: Path
    container: Container


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What was said of the files: `output` as given, `like` a file whose kind is taken when it was not."""

    output: Path | None
    like: Path | None
    lossless: bool
    must_be_lossless: bool


def is_still(path: Path | None) -> bool:
    """Whether the suffix is one of a kind that holds a single picture."""
    return path is not None and path.suffix.lower() in (*Png.suffixes, *Jpeg.suffixes)


def scale_for(width_px: int, height_px: int) -> int:
    """The factor that makes a tiny picture visible: its shorter side becomes at least `EYE_PX`."""
    return max(1, -(-EYE_PX // min(width_px, height_px)))


def targets_for(arguments: Arguments, wish: Wish, scale: int | None) -> Mapping[int, Target]:
    """A target for each item; `scale` None enlarges for the eye.

    Raises what writing them would raise: Unknown (suffix), Refused (the kind cannot hold it, no
    permission), NotFound (no such folder).
    """
    factor = scale or scale_for(arguments.width, arguments.height)
    found: dict[int, Target] = {}
    for item, path in _paths(arguments, wish).items():
        container = check_target(
            path,
            frame_count=2 if _is_clip(arguments) and arguments.frames == 1 else arguments.frames,
            height_px=arguments.height * factor,
            width_px=arguments.width * factor,
            fps=arguments.fps,
        )
        found[item] = Target(path=path, container=_lossless(container, path, wish))
    return found


def _is_clip(arguments: Arguments) -> bool:
    # A pipeline that is left to choose the number of frames makes a clip if that is its task.
    chooses = "frames" in arguments.left_open
    return arguments.frames > 1 or (chooses and arguments.task in (Task.TEXT_TO_VIDEO, Task.IMAGE_TO_VIDEO))


def _paths(arguments: Arguments, wish: Wish) -> dict[int, Path]:
    several = len(arguments.items) > 1
    if wish.output is not None and not os.path.isdir(wish.output):  # true to any name, unlike Path's own
        if not several:
            return {arguments.items[0]: wish.output}
        return {item: wish.output.with_stem(f"{wish.output.stem}-{item}") for item in arguments.items}
    folder = wish.output or Path()
    stem, suffix = f"{slug(arguments.prompt)}-{arguments.seed}", _suffix(arguments, wish)
    numbered = several or arguments.items[0] > 0
    names = {item: f"{stem}-{item}" if numbered else stem for item in arguments.items}
    return {item: _unused(folder / f"{name}{suffix}") for item, name in names.items()}


def _suffix(arguments: Arguments, wish: Wish) -> str:
    if wish.like is not None and not (is_still(wish.like) and _is_clip(arguments)):
        return wish.like.suffix
    if _is_clip(arguments):
        return ".webm" if wish.must_be_lossless else ".mp4"
    return ".png"


def _unused(path: Path) -> Path:
    """The path itself, or the first of `name_2`, `name_3`, ... that is not taken."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_stem(f"{path.stem}_{number}")
    return candidate


def slug(prompt: str) -> str:
    """The prompt as a file name: letters and digits of any script in small, the rest as single dashes."""
    words = re.sub(r"[\W_]+", "-", prompt.lower()).strip("-")
    if len(words) > _SLUG_CHARACTERS:
        words = words[: _SLUG_CHARACTERS + 1].rpartition("-")[0] or words[:_SLUG_CHARACTERS]
    return words or "picture"


def _lossless(container: Container, path: Path, wish: Wish) -> Container:
    if isinstance(container, WebP | WebM) and (wish.lossless or wish.must_be_lossless):
        return replace(container, lossless=True)
    if wish.must_be_lossless and not isinstance(container, Png):
        raise Refused(f"{container.name} does not keep every pixel ('{path}'); write .png, .webp or .webm")
    return container

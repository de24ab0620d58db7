"""From options to a request: what a person said, over what a file records. Imports no torch.

Precedence: a flag, then the file of --from, then the card. The card comes later, in `resolve`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restrike.cards import registry
from restrike.cards.checkpoint import HubRepository, NotHere
from restrike.cards.registry import DEFAULT
from restrike.cards.request import Request
from restrike.cards.request_faults import COUNT_LIMIT
from restrike.cli import values
from restrike.cli.adapters import found_again
from restrike.cli.options import RequestOptions
from restrike.errors import Refused, Unknown
from restrike.media import Provenance

SCALE, LOSSLESS = "scale", "lossless"
"""What the command line adds to the arguments in a file's provenance: how the file itself was made."""

_AS_RECORDED = (
    *("negative_prompt", "steps", "guidance", "guidance_2", "guidance_mode", "guidance_every"),
    *("width", "height", "frames", "fps", "solver", "shift"),
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """The file of --from: its path as it was given, and what it says of its making."""

    path: str
    provenance: Provenance


def source_of(options: RequestOptions) -> Source | None:
    """What --from names, or None; raises Refused for a file that says nothing of its making."""
    if options.source is None:
        return None
    from restrike.media import provenance_of
    from restrike.workflow.loading import SUFFIXES

    if options.source.suffix.lower() in SUFFIXES:
        raise Refused(
            f"--from takes a picture or clip, and '{options.source}' is named as a workflow; "
            f"say: restrike run {shlex.quote(str(options.source))}"
        )
    found = provenance_of(options.source)
    if found is None:
        raise Refused(f"'{options.source}' was made by another program: it does not say how to make it again")
    return Source(path=str(options.source), provenance=found)


def card_name(options: RequestOptions, source: Source | None) -> str:
    """The card that is asked for: by flag, by the file, or the default."""
    if options.card is not None:
        return options.card
    return _recorded_card(source) if source else DEFAULT


def _recorded_card(source: Source) -> str:
    """The card that a file names: an installed one or a hub id, for no file may choose a folder here."""
    name = source.provenance.card
    parts = name.split("/")
    if name in registry.names() or (len(parts) == 2 and all(parts) and not {".", ".."} & set(parts)):
        if not name.startswith("~") and not Path(name).is_dir():
            _check_here(name, source)
            return name
        raise Refused(f"'{source.path}' names card '{name}', which is a folder here; name it with --card")
    raise Unknown("card", name, registry.names(), hint=f"'{source.path}' names it; say another with --card.")


def _check_here(name: str, source: Source) -> None:
    """Refuse to download what a file, perhaps a stranger's, names; the user may by naming it."""
    if name in registry.names():
        return
    try:
        HubRepository(*name.split("@", 1)).present((registry.INDEX,))
    except NotHere as error:
        raise Refused(
            f"'{source.path}' names '{name}', which is not on this machine; "
            f"--card {name} downloads it, if you trust it"
        ) from error


def request_of(options: RequestOptions, source: Source | None) -> Request:
    """The request; raises Refused for values that cannot be read."""
    said = _said(options)
    recorded = _recorded(source, said) if source else {}
    if source and "image" in source.provenance.arguments and "image" not in said:
        raise Refused(
            f"'{source.path}' was made from a picture, which it does not hold; give it with --image"
        )
    if "steps" in said and "sigmas" not in said:
        recorded.pop("sigmas", None)
    if "guidance" in said and recorded.get("guidance_2") == recorded.get("guidance"):
        recorded.pop("guidance_2", None)
    merged = recorded | said
    if "prompt" not in merged:
        raise Refused('no prompt; say what to make: restrike generate "a red circle moving left"')
    return Request(**merged)


def _said(options: RequestOptions) -> dict[str, Any]:
    """The flags that were given, by the names of a request."""
    width, height = values.size(options.size) if options.size else (None, None)
    said = {
        "prompt": _prompt(options.prompt),
        "negative_prompt": options.negative,
        "seed": options.seed,
        "items": _items(options.count, options.item),
        "steps": options.steps,
        "guidance": options.guidance,
        "guidance_2": options.guidance_2,
        "guidance_mode": options.guidance_mode,
        "guidance_interval": options.guidance_interval,
        "guidance_every": options.guidance_every,
        "width": width,
        "height": height,
        "frames": options.frames,
        "fps": options.fps,
        "solver": options.solver,
        "shift": options.shift,
        "sigmas": values.sigmas(options.sigmas) if options.sigmas else None,
        "image": _image(options),
        "call": values.settings(options.settings) or None,
        "adapters": tuple(map(values.lora, options.lora)) or None,
        "exact": options.exact or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _recorded(source: Source, said: Mapping[str, Any]) -> dict[str, Any]:
    """A file's arguments as those of a request; what is missing in an older file is the card's default."""
    made, arguments = source.provenance, dict[str, Any](source.provenance.arguments)
    found = {name: arguments[name] for name in _AS_RECORDED if arguments.get(name) is not None}
    for name in ("guidance_interval", "sigmas"):
        value = arguments.get(name)
        if value is not None:
            found[name] = tuple(value) if isinstance(value, list) else value
    if "prompt" in arguments:
        found["prompt"] = arguments["prompt"]
    call = arguments.get("call") or {}
    if not isinstance(call, Mapping):
        raise Refused(f"'{source.path}': its call arguments are not a mapping, so they cannot be used")
    for name, value in call.items():
        if isinstance(value, Mapping) and value.keys() & {"digest", "not keyable"}:
            raise Refused(
                f"'{source.path}' was made with a '{name}' that it does not hold; it comes from Python"
            )
    if "adapters" not in said:
        found["adapters"] = found_again(source.path, arguments)
    return found | {"call": call, "seed": made.seed, "items": (made.item,)}


def _prompt(words: list[str] | None) -> str | None:
    if not words:
        return None
    if len(words) > 1:
        raise Refused(f'{len(words)} prompts; put the prompt in quotes: "{" ".join(words)}"')
    return words[0]


def _items(count: int | None, item: int | None) -> tuple[int, ...] | None:
    if item is not None and count is not None and not 0 <= item < count:
        raise Refused(f"item {item}: -n {count} makes pictures 0 to {count - 1}")
    if item is not None:
        return (item,)
    if count is not None and count > COUNT_LIMIT:
        raise Refused(f"{count} pictures in one request; at most {COUNT_LIMIT}")
    return tuple(range(count)) if count is not None else None


def _image(options: RequestOptions) -> Any:
    if options.image is None:
        return None
    from restrike.media import read_picture

    return read_picture(options.image)

"""Provenance: what made a file, as text that travels inside the file.

The text comes back from strangers: it is parsed as bounded JSON and checked field by field, never evaluated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TypeAlias

from restrike.errors import Refused

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

SCHEMA = 1
MAX_TEXT_BYTES = 1 << 20
"""Largest provenance that is written or read: a prompt of 256 KiB fits in any script."""

_MAX_DEPTH = 32
_MAX_SEED = 2**53 - 1
_LEFT_OUT = {"weight_versions", "cells"}
"""What is written only where there is something to say."""
_OPENING = '{"restrike":{'


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """All that is needed to make a file again.

    `arguments` holds plain JSON values; it is copied, so a later change of the caller's mapping is not seen.
    Raises `Refused` for a value that JSON cannot hold exactly, naming its path.
    """

    card: str
    weights: str
    """Identity of the weights, as the card states it."""
    arguments: Mapping[str, Json]
    """Prompt, negative prompt, steps, guidance, size, frames, frame rate, ... as they were resolved."""
    seed: int
    item: int
    """Which item of the batch this is; its noise comes from (seed, item) alone."""
    versions: Mapping[str, str]
    """Name to version of what computed it: restrike, torch, python, ..."""
    weight_versions: Mapping[str, int] = field(default_factory=dict)
    """Component to the version of its weights, of those that were synced since they were loaded."""
    cells: Sequence[str] = ()
    """The keys of the compiled calls that took part, in order; none when all of it ran eagerly."""

    def __post_init__(self) -> None:
        _check_text("card", self.card)
        _check_text("weights", self.weights)
        _check_count("seed", self.seed, _MAX_SEED)
        _check_count("item", self.item, _MAX_SEED)
        for name in ("arguments", "versions", "weight_versions"):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                raise Refused(f"provenance: {name} must be a mapping, not {type(value).__name__}")
            object.__setattr__(self, name, _plain(value, name, 0))
        for name, version in self.versions.items():
            _check_text(f"versions.{name}", version)
        if isinstance(self.cells, str) or not isinstance(self.cells, Sequence):
            raise Refused(f"provenance: cells must be a list, not {type(self.cells).__name__}")
        object.__setattr__(self, "cells", tuple(self.cells))
        for key in self.cells:
            _check_text("cells", key)
        for name, version in self.weight_versions.items():
            _check_count(f"weight_versions.{name}", version, _MAX_SEED)
        self._check_size()

    def to_json(self) -> str:
        """The one canonical text, in ASCII: sorted keys, no spaces, floats that read back bit for bit."""
        body = asdict(self)
        for name in _LEFT_OUT:
            # Nothing of it in a file that says nothing of it, as in all that were written before it existed.
            if not body[name]:
                del body[name]
        return json.dumps(
            {"restrike": {"schema": SCHEMA, **body}},
            sort_keys=True,
            separators=(",", ":"),
            allow_nan=False,
        )

    def _check_size(self) -> None:
        size_bytes = len(self.to_json())
        if size_bytes > MAX_TEXT_BYTES:
            longest = max(self.arguments, key=lambda name: len(json.dumps(self.arguments[name])), default="")
            raise Refused(
                f"the provenance takes {size_bytes} bytes and at most {MAX_TEXT_BYTES} go into a file; "
                f"shorten argument '{longest}'"
            )


def parse(text: str) -> Provenance | None:
    """Read the text that `Provenance.to_json` wrote; None when another program wrote it.

    Raises `Refused` when the text is ours but torn, too long, or of another schema; the caller adds the file.
    """
    if not text.startswith(_OPENING):
        return None
    if len(text) > MAX_TEXT_BYTES:
        raise Refused(f"its provenance is {len(text)} bytes long, at most {MAX_TEXT_BYTES} are read")
    try:
        body = json.loads(text, parse_constant=_no_constant)["restrike"]
    except (ValueError, RecursionError) as error:
        raise Refused(f"its provenance is torn ({_first_line(error)})") from error
    return _from_body(body)


def _from_body(body: dict[str, Json]) -> Provenance:
    schema = body.pop("schema", None)
    if schema != SCHEMA:
        raise Refused(f"its provenance has schema {schema!r}, this restrike reads schema {SCHEMA}")
    expected = {part.name for part in fields(Provenance)}
    if body.keys() | _LEFT_OUT != expected:
        odd = ", ".join(sorted((body.keys() | _LEFT_OUT) ^ expected))
        raise Refused(f"its provenance is torn (missing or unknown: {odd})")
    try:
        return Provenance(**body)  # pyright: ignore[reportArgumentType]  (checked by __post_init__)
    except Refused as error:
        raise Refused(f"its provenance is torn ({error.message})") from error


def _plain(value: object, path: str, depth: int) -> Json:
    """A copy made of JSON's own types, or a refusal that names `path`."""
    if depth > _MAX_DEPTH:
        raise Refused(f"provenance: {path} is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        for key in value:
            _check_text(f"a key of {path}", key)
        return {key: _plain(item, f"{path}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and abs(value) < 2**63:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    shown = repr(value) if isinstance(value, int | float) else type(value).__name__
    raise Refused(f"provenance: {path} is {shown}, which JSON cannot hold exactly")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise Refused(f"provenance: {name} must be text, not {type(value).__name__}")


def _check_count(name: str, value: object, limit: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
        raise Refused(f"provenance: {name} must be a whole number from 0 to {limit}, not {value!r}")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that JSON has")


def _first_line(error: BaseException) -> str:
    return str(error).split("\n")[0]

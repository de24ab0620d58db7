"""The manifest of a cell: its call, its members, the constants to bind, how it was made and proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from restrike.errors import Refused
from restrike.keys import Digest, Key
from restrike.mint.cell.facts import Ingress
from restrike.mint.cell.header import HeaderFacts
from restrike.mint.cell.key import cell_key


@dataclass(frozen=True, kw_only=True)
class ConstantSpec:
    """A tensor that is bound from the resident weights: a parameter or buffer by its name in the module."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Proof:
    """How far the cell was from eager on a probe of its call, what was allowed, and how long both took."""

    max_difference: float
    tolerance: float
    eager_s: float
    cell_s: float


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A phase of the mint: how long it took, and the most memory that was in use by its end."""

    name: str
    seconds: float
    peak_bytes: int


@dataclass(frozen=True, kw_only=True)
class ManifestFacts:
    """What the mint knows of a cell. `graph` is the digest of the traced graph; `compiler` is for people.

    A cell without a proof can be sealed, so that the sealed thing is what is proved, but never published.
    """

    graph: str
    ingress: Ingress
    layout: str
    options: Mapping[str, Any]
    constants: tuple[ConstantSpec, ...]
    compiler: str
    phases: tuple[Phase, ...]
    proof: Proof | None

    def __post_init__(self) -> None:
        Digest(self.graph)


@dataclass(frozen=True, kw_only=True)
class Member:
    """One file of a cell, by its relative name with `/` between its parts."""

    name: str
    size_bytes: int
    digest: Digest

    def __post_init__(self) -> None:
        parts = self.name.split("/")
        if (
            PurePosixPath(self.name).is_absolute()
            or {"", ".", ".."} & set(parts)
            or set("\\:\0") & set(self.name)
        ):
            raise Refused(f"'{self.name}' is no relative name of a file")
        if self.size_bytes < 0:
            raise Refused(f"'{self.name}' has a negative size")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The facts, and the files in the order in which they follow: by name, each once."""

    facts: ManifestFacts
    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        names = [member.name for member in self.members]
        if not names or names != sorted(set(names)):
            raise Refused("its members are not listed by name, each once")

    def key(self, header: HeaderFacts) -> Key:
        """The key of the cell, made of what it holds."""
        facts = self.facts
        return cell_key(
            graph=facts.graph,
            ingress=facts.ingress,
            stack=header.stack,
            target=header.target,
            layout=facts.layout,
            options=facts.options,
        )

"""An adapter (LoRA) as a request names it: a file, a folder or a hub id, and how strongly it acts.

It finds and digests files; it reads no tensors and imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from restrike.cards.checkpoint import HubRepository
from restrike.cards.identity import AdapterIdentity
from restrike.cards.lora_source import LoraSource, lora_source
from restrike.errors import Refused

COUNT_LIMIT = 16
STRENGTH_LIMIT = 100.0


@dataclass(frozen=True)
class Adapter:
    """A LoRA that acts on a card's weights for one request.

    `location` is a safetensors file, a folder with one, or a hub id; `weight_name` is the file within a
    folder or repository. `strength` scales what it adds: 0 is nothing, a negative one takes it away.
    `component` is the part of the card that it is for, in place of what the names in the file say. `file` and
    `digest` (and `hub`, for one that came from there) are None until it was found: see `settled`.
    """

    location: str | Path
    strength: float = 1.0
    weight_name: str | None = None
    component: str | None = None
    file: Path | None = None
    digest: str | None = None
    hub: str | None = None

    @property
    def name(self) -> str:
        """How it is called in messages: its file's name, or what it was asked for by."""
        return Path(self.location if self.file is None else self.file).name

    @property
    def identity(self) -> AdapterIdentity:
        """What of a settled adapter decides a result."""
        if self.digest is None:
            raise Refused(f"LoRA '{self.name}' was not looked at yet, so it has no identity")
        return AdapterIdentity(digest=self.digest, strength=self.strength, component=self.component)

    def source(self) -> LoraSource:
        """Where its file is; raises NotFound or Refused."""
        return lora_source(
            str(self.location), weight_name=self.weight_name, name=self.name, scale=self.strength
        )

    def settled(self) -> Adapter:
        """The same with its file, fetched from the hub if need be, and the digest of what is in it.

        Raises:
            NotFound, Refused: there is no such file, or it is no LoRA in safetensors.
        """
        if self.digest is not None:
            return self
        source = self.source()
        source.fetch()
        return self._found(source)

    def present(self) -> Adapter:
        """`settled` without fetching; raises NotHere for one that is still on the hub alone."""
        return self if self.digest is not None else self._found(self.source())

    def _found(self, source: LoraSource) -> Adapter:
        from restrike.keys import file_digest

        file = source.file()
        hub = str(source.origin) if isinstance(source.origin, HubRepository) else None
        return replace(self, file=file, digest=str(file_digest(file)), hub=hub)

    def recorded(self) -> dict[str, Any]:
        """What provenance says of it: its file by name and digest, where the hub has it, never a path."""
        return {
            "name": self.name,
            "digest": self.digest,
            "strength": self.strength,
            **({} if self.component is None else {"component": self.component}),
            **({} if self.hub is None else {"hub": self.hub}),
        }


def adapter_of(value: Any) -> Adapter:
    """An adapter, or the location of one at full strength; raises TypeError for anything else."""
    if isinstance(value, str | Path):
        return Adapter(value)
    if not isinstance(value, Adapter):
        raise TypeError
    strength = value.strength
    if isinstance(strength, bool) or not isinstance(strength, int | float):
        raise TypeError
    return replace(value, strength=float(strength))

"""Finds the file of a LoRA: a path, a file in a folder, or a file of a hub repository. Imports no torch.

Only safetensors are taken; a pickled file is named and never opened.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from restrike.cards.checkpoint import Checkpoint, Folder, HubRepository, NotHere
from restrike.cards.registry import located
from restrike.errors import NotFound, Refused

SAFE = ".safetensors"


@dataclass(frozen=True, kw_only=True)
class LoraSource:
    """One LoRA as its author gave it. `origin` is the file itself, or where it is looked for."""

    origin: Path | Folder | HubRepository
    weight_name: str | None
    name: str
    scale: float

    def file(self) -> Path:
        """The file on this machine.

        Raises:
            NotHere: it is on the hub and was not fetched yet.
            NotFound, Refused: there is none, or several, or it is no safetensors file.
        """
        if isinstance(self.origin, Path):
            return _safe(self.origin)
        if isinstance(self.origin, Folder):
            checkpoint = self.origin.present(())
        else:
            from restrike.cards.hub import cached

            root = cached(self.origin.repository, self.origin.revision)
            if root is None or not Checkpoint(root=root, name=str(self.origin)).files(self._files):
                raise NotHere(f"LoRA '{self.origin}' is not on this machine yet")
            checkpoint = Checkpoint(root=root, name=str(self.origin))
        return self._only(checkpoint)

    def fetch(self) -> None:
        """Bring the file to this machine; raises as the hub does."""
        if isinstance(self.origin, HubRepository):
            self.origin.resolve(self._files)

    def missing_bytes(self) -> int | None:
        """What has to be fetched; None when that cannot be found out now."""
        try:
            self.file()
        except NotHere:
            return self.origin.missing_bytes(self._files) if isinstance(self.origin, HubRepository) else 0
        return 0

    @property
    def _files(self) -> tuple[str, ...]:
        return (self.weight_name or f"*{SAFE}",)

    def _only(self, checkpoint: Checkpoint) -> Path:
        found = checkpoint.files(self._files)
        if len(found) == 1:
            return _safe(found[0])
        held = [path.relative_to(checkpoint.root).as_posix() for path in checkpoint.files((f"**/*{SAFE}",))]
        there = f"there is {', '.join(held[:20])}" if held else f"there is no {SAFE} file"
        if not found:
            wanted = self.weight_name or f"*{SAFE}"
            raise NotFound(f"LoRA '{self.name}': '{checkpoint.name}' has no {wanted} ({there})")
        raise Refused(f"LoRA '{self.name}': say which file, as weight_name ({there})")


def lora_source(path: str, *, weight_name: str | None, name: str | None, scale: float) -> LoraSource:
    """The source that a path or hub id means; raises NotFound or Refused."""
    file = Path(path).expanduser()
    origin: Path | Folder | HubRepository | None = file if file.is_file() else _place(path)
    if origin is None:
        raise NotFound(f"no LoRA file, folder or hub id (owner/name) '{path}'")
    if isinstance(origin, Path) and weight_name is not None:
        raise Refused(f"weight_name names a file in a folder, and '{file.name}' is a file")
    source = LoraSource(
        origin=origin, weight_name=weight_name, name=name or Path(path).stem, scale=float(scale)
    )
    with suppress(NotHere):
        _check(source.file(), source.name)
    return source


def _place(path: str) -> Folder | HubRepository | None:
    if path.endswith(SAFE):
        raise NotFound(f"no LoRA file at '{path}'")
    return located(path)


def _safe(file: Path) -> Path:
    if file.suffix != SAFE:
        raise Refused(f"LoRA file '{file.name}' is no {SAFE} file; others can run code when they are read")
    return file


def _check(file: Path, name: str) -> None:
    """Look at the header: that it is whole, and holds what diffusers reads."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as tensors:
            keys = list(tensors.keys())
    except SafetensorError as error:
        raise Refused(f"LoRA '{name}' is torn ({error}); fetch it again") from error
    if not any("lora" in key or "lokr" in key for key in keys):
        raise Refused(f"LoRA '{name}' holds no LoRA: its tensors are {', '.join(keys[:4]) or 'none'}")
    if any("dora_scale" in key for key in keys):
        raise Refused(f"LoRA '{name}' is a DoRA, whose scales diffusers would leave out")

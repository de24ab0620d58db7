"""New weights of a component as they come: tensors by name, or safetensors files whole or in shards.

It opens and looks; it writes nothing, and never reads a pickled file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from restrike.errors import NotFound, Refused

Source: TypeAlias = "Mapping[str, Tensor] | str | Path"
SAFE, INDEX = ".safetensors", ".safetensors.index.json"
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


@dataclass(frozen=True, kw_only=True)
class Form:
    """Shape and dtype of a tensor; `dtype` is None for one of safetensors' that no component holds."""

    shape: tuple[int, ...]
    dtype: torch.dtype | None


class Incoming(Protocol):
    """The tensors of a sync, looked at before any is read."""

    @property
    def forms(self) -> Mapping[str, Form]:
        """Of each tensor."""
        ...

    def tensor(self, name: str) -> Tensor:
        """One of them."""
        ...


@dataclass(frozen=True)
class Given:
    """Tensors that the caller holds; nobody may write to them while they are synced."""

    tensors: Mapping[str, Tensor]

    @property
    def forms(self) -> Mapping[str, Form]:
        """Of each tensor."""
        return {
            name: Form(shape=tuple(value.shape), dtype=value.dtype) for name, value in self.tensors.items()
        }

    def tensor(self, name: str) -> Tensor:
        """The tensor itself."""
        return self.tensors[name].detach()


@dataclass(frozen=True)
class Read:
    """Tensors in open safetensors files, read one at a time."""

    forms: Mapping[str, Form]
    handles: Mapping[str, Any]

    def tensor(self, name: str) -> Tensor:
        """Read one; each call reads it anew."""
        return self.handles[name].get_tensor(name)


def incoming(source: Source, stack: ExitStack) -> Incoming:
    """What a source holds; its files stay open until the stack is closed.

    Raises:
        NotFound: no such file, or a shard that the index names is missing.
        Refused: a file is torn or no safetensors, or the values are no tensors.
    """
    if isinstance(source, str | Path):
        return _opened(_files(Path(source).expanduser()), stack)
    strange = [name for name, value in source.items() if not isinstance(value, Tensor)]
    if strange:
        raise Refused(f"'{strange[0]}' of a sync is a {type(source[strange[0]]).__name__}, not a tensor")
    return Given(source)


def _files(path: Path) -> Mapping[Path, set[str] | None]:
    """The files to read, each with the names that an index says it has (None: all)."""
    if path.is_dir():
        found = [*sorted(path.glob(f"*{INDEX}")), *sorted(path.glob(f"*{SAFE}"))]
        if not found:
            raise NotFound(f"no {SAFE} file in '{path.name}'")
        path = found[0]
        if len(found) > 1 and not path.name.endswith(INDEX):
            raise Refused(f"'{path.parent.name}' holds several {SAFE} files and no index; name one")
    if not path.is_file():
        raise NotFound(f"no file of weights at '{path}'")
    if path.name.endswith(INDEX):
        return _shards(path)
    if path.suffix != SAFE:
        raise Refused(f"'{path.name}' is no {SAFE} file; others can run code when they are read")
    return {path: None}


def _shards(index: Path) -> Mapping[Path, set[str]]:
    try:
        mapping: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        shards: dict[Path, set[str]] = {}
        for name, file in mapping.items():
            if Path(file).name != file:
                raise ValueError(f"'{file}' is not beside it")
            shards.setdefault(index.parent / file, set()).add(name)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"'{index.name}' is not an index of weights ({error})") from error
    absent = [file.name for file in shards if not file.is_file()]
    if absent:
        raise NotFound(f"'{index.name}' names {absent[0]}, which is missing ({len(absent)} of {len(shards)})")
    return shards


def _opened(files: Mapping[Path, set[str] | None], stack: ExitStack) -> Read:
    forms: dict[str, Form] = {}
    handles: dict[str, Any] = {}
    for path, promised in files.items():
        try:
            handle = stack.enter_context(safe_open(path, framework="pt"))
            names = list(handle.keys())
            slices = {name: handle.get_slice(name) for name in names}
        except SafetensorError as error:
            raise Refused(f"'{path.name}' is torn ({error})") from error
        if promised is not None and (lacking := sorted(promised - set(names))):
            raise Refused(f"'{path.name}' lacks '{lacking[0]}', which its index promises")
        for name, part in slices.items():
            forms[name] = Form(shape=tuple(part.get_shape()), dtype=_DTYPES.get(part.get_dtype()))
            handles[name] = handle
    return Read(forms, handles)

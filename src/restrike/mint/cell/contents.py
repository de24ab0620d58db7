"""What may be in a cell: code and what belongs to it, never weights. And the libraries that the code needs.

Looks at bytes, through the packages that torch writes, and runs none of them.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

from restrike.mint.cell import elf
from restrike.mint.cell.header import Floor
from restrike.mint.cell.refusal import CellRefusal, CellRefused

# A package without weights still links one byte in their place.
_PLACEHOLDER_BYTES = 64
_WEIGHT_SUFFIXES = (".safetensors", ".gguf", ".ckpt", ".pth", ".npy", ".npz", ".blob")
_WEIGHT_FOLDERS = ("/data/weights/", "/data/constants/")
_TENSOR_MAGICS = (b"GGUF", b"\x93NUMPY")
_ZIP_MAGIC = b"PK\x03\x04"


def check_code_only(name: str, data: bytes) -> None:
    """Raise CellRefused when a member holds weights, in whatever wrapping, or cannot be looked into."""
    for piece, content in _pieces(name, data):
        found = _weights_in(piece, content)
        if found:
            raise CellRefused(
                CellRefusal.WEIGHTS_INSIDE,
                f"'{piece}' {found}; a cell binds the weights of the model it serves",
            )


def floor_of(name: str, data: bytes) -> Floor:
    """The oldest libraries that the code of a member can be linked with."""
    floors = [elf.floor_of(content) for _, content in _pieces(name, data) if content.startswith(elf.MAGIC)]
    return join(floors)


def join(floors: list[Floor]) -> Floor:
    """The floor of several pieces of code together."""
    return Floor(
        glibc=max((floor.glibc for floor in floors), default=()),
        libstdcxx=max((floor.libstdcxx for floor in floors), default=()),
    )


def _pieces(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """A member, and all that is in it if it is a package."""
    yield name, data
    if data.startswith(_ZIP_MAGIC):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as package:
                for info in package.infolist():
                    yield from _pieces(f"{name}/{info.filename}", package.read(info))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
            raise CellRefused(CellRefusal.MALFORMED, f"the package '{name}' is not whole") from error


def _weights_in(name: str, data: bytes) -> str:
    """What about this piece says that it holds weights; empty if nothing does."""
    if name.endswith(_WEIGHT_SUFFIXES) or any(folder in f"/{name}" for folder in _WEIGHT_FOLDERS):
        return "is a file of weights"
    if name.endswith("/data.pkl"):
        return "belongs to a saved checkpoint"
    if data.startswith(_TENSOR_MAGICS) or _is_safetensors(data):
        return "holds tensors"
    linked = elf.constants_bytes(data) if data.startswith(elf.MAGIC) else 0
    return f"holds {linked} bytes of constants" if linked > _PLACEHOLDER_BYTES else ""


def _is_safetensors(data: bytes) -> bool:
    length = int.from_bytes(data[:8], "little")
    return 2 <= length <= len(data) - 8 and data[8:9] == b"{" and b'"data_offsets"' in data[8 : 8 + length]

"""Stores with one cell: the real one, or one that a trusted key signed and that is not what it says."""

from __future__ import annotations

import io
import math
import shutil
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from restrike.keys import Digest
from restrike.mint.cell.header import HeaderFacts
from restrike.mint.cell.host import this_host
from restrike.mint.cell.manifest import ManifestFacts
from restrike.mint.cell.seal import seal
from restrike.mint.store.store import CellStore

CUBIC = 2 * math.sqrt(2 / math.pi) * 0.044715
"""The constant of the activation's cubic term, as it is compiled."""
"""A number that the digits' compiled code holds, of its activation."""

Facts = Callable[[ManifestFacts], ManifestFacts]


def twin(kept: CellStore, root: Path, *, signposts: bool = True) -> CellStore:
    """A copy of a store, which may forget what its mint left beside the cells."""
    # Not the leases: whoever closes a file of SQLite lets go of all locks that its process holds on it.
    shutil.copytree(kept.root, root, ignore=shutil.ignore_patterns("*.sqlite*"))
    if not signposts:
        shutil.rmtree(root / "signposts", ignore_errors=True)
    return CellStore(root)


def unchanged(facts: ManifestFacts) -> ManifestFacts:
    """The facts as they are."""
    return facts


def forged(
    kept: CellStore,
    root: Path,
    *,
    code: Callable[[bytes], bytes] | None = None,
    facts: Facts = unchanged,
) -> CellStore:
    """A store whose only cell has the kept one's key and signposts, but other code or other facts."""
    store = CellStore(root)
    (key,) = (cell.key for cell in kept.cells())
    opened, manifest = kept.look(key)
    folder = root / "members"
    with kept.open(key, this_host(opened.header.facts.target)) as cell:
        cell.unpack(folder)
    if code is not None:
        (package,) = folder.glob("*.pt2")
        package.write_bytes(_recoded(package.read_bytes(), code))
    header = HeaderFacts(stack=opened.header.facts.stack, target=opened.header.facts.target)
    sealed = seal(
        folder, header=header, manifest=facts(manifest.facts), signer=store.ring.signer(), to=root / "f.cell"
    )
    store.publish(sealed)
    shutil.rmtree(folder)
    shutil.copytree(kept.root / "signposts", root / "signposts")
    return store


def _recoded(package: bytes, code: Callable[[bytes], bytes]) -> bytes:
    """The package with its shared objects changed."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as source, zipfile.ZipFile(written, "w") as target:
        for info in source.infolist():
            data = source.read(info)
            target.writestr(info, code(data) if info.filename.endswith(".so") else data)
    return written.getvalue()


def other_literal(code: bytes) -> bytes:
    """Code whose activation has another constant."""
    literal = struct.pack("<f", CUBIC)
    assert literal in code
    return code.replace(literal, struct.pack("<f", 10 * CUBIC))


def deadly(code: bytes) -> bytes:
    """Code whose every instruction is one that no processor has."""
    offset, size = _text(code)
    return code[:offset] + b"\x0f\x0b" * (size // 2) + code[offset + size // 2 * 2 :]


def _text(code: bytes) -> tuple[int, int]:
    """Where the instructions of a 64-bit shared object lie, and how many bytes they are."""
    (table,) = struct.unpack_from("<Q", code, 0x28)
    size, count, names = struct.unpack_from("<HHH", code, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", code, table + size * index) for index in range(count)]
    strings = sections[names][4]
    for name, _, _, _, offset, length in sections:
        if code[strings + name : strings + name + 6] == b".text\0":
            return offset, length
    raise AssertionError("no instructions")


def without_constant(facts: ManifestFacts) -> ManifestFacts:
    """One constant less than the code reads."""
    return replace(facts, constants=facts.constants[1:])


def with_renamed(facts: ManifestFacts) -> ManifestFacts:
    """One constant under a name that no component has."""
    first, *rest = facts.constants
    renamed = (replace(first, name="component.nowhere"), *rest)
    return replace(facts, constants=tuple(sorted(renamed, key=lambda each: each.name)))


def with_other_form(facts: ManifestFacts) -> ManifestFacts:
    """One constant of another shape than the component's."""
    first, *rest = facts.constants
    return replace(facts, constants=(replace(first, shape=(*first.shape, 1)), *rest))


def key_in(store: CellStore) -> Digest:
    """The key of the only cell."""
    (cell,) = store.cells()
    return cell.key

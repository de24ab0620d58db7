"""Packs a folder of compiled code into one sealed file: the same folder and facts, the same bytes.

No clock, path, owner or order of a directory enters the file, and no weights do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from restrike.errors import NotFound, Refused, typed
from restrike.keys import bytes_digest
from restrike.mint.cell import coding, contents, layout
from restrike.mint.cell.header import Header, HeaderFacts
from restrike.mint.cell.manifest import Manifest, ManifestFacts, Member
from restrike.mint.cell.refusal import CellRefusal, CellRefused
from restrike.mint.cell.signing import Signer
from restrike.store.files import write_file


@dataclass(frozen=True, kw_only=True)
class _Packed:
    member: Member
    data: bytes


def seal(
    folder: Path, *, header: HeaderFacts, manifest: ManifestFacts, signer: Signer | None, to: Path
) -> Path:
    """Seal all files under a folder into `to`, which appears whole or not at all; returns `to`.

    Args:
        folder: the compiled code, with whatever folders it has.
        header, manifest: the facts of the cell; its key is made of them.
        signer: who vouches for it. What nobody signed can be looked at and never be loaded or published.

    Raises:
        NotFound: there is no such folder, or no file in it.
        CellRefused: a file holds weights.
        Refused: a link or an odd name is among the files, or `to` cannot be written.
        Unkeyable: an option is no plain value.
        Shortfall: no space is left.
    """
    packed = [_packed(name, path) for name, path in _files(folder)]
    whole = Manifest(facts=manifest, members=tuple(each.member for each in packed))
    encoded = coding.written(whole)
    body = [layout.member_frame(each.member.name, len(each.data)) + each.data for each in packed]
    top = Header(
        key=whole.key(header).digest,
        facts=header,
        floor=contents.join([contents.floor_of(each.member.name, each.data) for each in packed]),
        manifest=bytes_digest(encoded),
        manifest_bytes=len(encoded),
        members_bytes=sum(map(len, body)),
    )
    write_file(to, b"".join((_head(top, signer).written(), layout.checked(encoded), *body)))
    return to


def _head(header: Header, signer: Signer | None) -> layout.Head:
    encoded = coding.written(header)
    if len(encoded) > layout.MAX_HEADER_BYTES:
        raise CellRefused(
            CellRefusal.MALFORMED, f"its header has {len(encoded)} bytes; shorten the stack's names"
        )
    if signer is None:
        return layout.Head(header=encoded, public=b"", signature=b"")
    return layout.Head(header=encoded, public=signer.public.raw, signature=signer.sign(encoded))


def _files(folder: Path) -> list[tuple[str, Path]]:
    """All files under the folder by their relative names, in the order of the names."""
    if not folder.is_dir():
        raise NotFound(f"no folder at '{folder}' to seal")
    found: list[tuple[str, Path]] = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise Refused(f"'{name}' is a link or no file; a cell holds plain files")
        if path.is_file():
            found.append((name, path))
    if not found:
        raise NotFound(f"no file in '{folder}' to seal")
    return sorted(found)


def _packed(name: str, path: Path) -> _Packed:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise typed(error) from error
    contents.check_code_only(name, data)
    return _Packed(member=Member(name=name, size_bytes=len(data), digest=bytes_digest(data)), data=data)

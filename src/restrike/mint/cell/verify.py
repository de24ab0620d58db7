"""The two checks of a sealed cell: its header before the rest is fetched, its manifest and members after.

Neither asks for what the other holds. Nothing of a cell is executed, linked or unpacked here, and what is
refused is refused by one name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import BinaryIO

from restrike.keys import Digest, bytes_digest
from restrike.mint.cell import capability, coding, contents, layout
from restrike.mint.cell.facts import Stack
from restrike.mint.cell.header import Floor, Header, Version
from restrike.mint.cell.host import Host
from restrike.mint.cell.keyring import Keyring
from restrike.mint.cell.manifest import Manifest, Member
from restrike.mint.cell.refusal import CellRefusal, CellRefused
from restrike.mint.cell.signing import PublicKey


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A header that a trusted key signed, and what signed it."""

    head: layout.Head
    header: Header
    signer: PublicKey


def verify_header(head: bytes, size_bytes: int, ring: Keyring) -> Opened:
    """Check all that the start of a file can tell: that it is whole, of a size, and signed by a trusted key.

    Args:
        head: the first `layout.HEAD_BYTES` of the file, or all of it.
        size_bytes: the size of the whole file.
        ring: the keys whose cells are loaded.

    Raises:
        CellRefused: no header, unknown format, truncated, trailing bytes, flipped bytes, malformed, unsigned,
            untrusted key, revoked key, wrong signature.
    """
    found = layout.head_of(head)
    signer = _check_signature(found, ring)
    header = coding.read(Header, found.header)
    _check_size(found, header, size_bytes)
    return Opened(head=found, header=header, signer=signer)


def verify_host(header: Header, host: Host) -> None:
    """Check that the code can run on a machine.

    Raises:
        CellRefused: foreign architecture, newer CPU capability, other torch version, other compile stack,
            library floor.
    """
    _check_target(header, host)
    stack, own = header.facts.stack, host.stack(header.facts.stack.recipe)
    if stack.torch != own.torch:
        raise CellRefused(CellRefusal.OTHER_TORCH, f"made with torch {stack.torch}, this is {own.torch}")
    if stack != own:
        raise CellRefused(CellRefusal.OTHER_STACK, _differences(stack, own))
    _check_floor("glibc", header.floor.glibc, host.glibc)
    _check_floor("libstdc++", header.floor.libstdcxx, host.libstdcxx)


def verify_any_host(header: Header, hosts: Sequence[Host]) -> None:
    """Check that the code can run on one of several devices; raises as `verify_host` does for the first.

    A device of the cell's own kind is asked first: what is wrong with another kind tells nothing.
    """
    refusals: list[CellRefused] = []
    for host in sorted(hosts, key=lambda host: host.target.kind != header.facts.target.kind):
        try:
            return verify_host(header, host)
        except CellRefused as refused:
            refusals.append(refused)
    raise refusals[0]


def verify_manifest(file: BinaryIO, opened: Opened) -> Manifest:
    """Check all that the rest of the file holds: it is the header's, has its key, each byte is as sealed.

    Raises:
        CellRefused: truncated, trailing bytes, flipped bytes, header of another cell, malformed, wrong key,
            swapped members, weights inside, library floor.
    """
    header = opened.header
    encoded = layout.manifest_in(file, opened.head, header.manifest_bytes)
    if bytes_digest(encoded) != header.manifest:
        raise CellRefused(
            CellRefusal.HEADER_OF_ANOTHER, "the manifest is whole and not the one of its header"
        )
    manifest = coding.read(Manifest, encoded)
    key = manifest.key(header.facts).digest
    if key != header.key:
        raise CellRefused(CellRefusal.WRONG_KEY, f"stamped {header.key.short}, its facts make {key.short}")
    floors: list[Floor] = []
    for member, data in members(file, opened, manifest):
        contents.check_code_only(member.name, data)
        floors.append(contents.floor_of(member.name, data))
    if contents.join(floors) != header.floor:
        raise CellRefused(CellRefusal.LIBRARY_FLOOR, "its code needs other libraries than its header says")
    if file.read(1):
        raise CellRefused(CellRefusal.TRAILING_BYTES, "something follows the last member")
    return manifest


def members(file: BinaryIO, opened: Opened, manifest: Manifest) -> Iterator[tuple[Member, bytes]]:
    """Each member with its bytes, which are what the manifest says.

    Raises:
        CellRefused: truncated, flipped bytes, swapped members.
    """
    limit_bytes = opened.header.members_bytes
    layout.first_member(file, opened.head, opened.header.manifest_bytes)
    names, digests = ({getattr(each, part) for each in manifest.members} for part in ("name", "digest"))
    for member in manifest.members:
        name, data = layout.next_member(file, limit_bytes)
        digest = bytes_digest(data)
        if (name, digest, len(data)) != (member.name, member.digest, member.size_bytes):
            swapped = name in names and digest in digests
            reason = CellRefusal.SWAPPED_MEMBERS if swapped else CellRefusal.FLIPPED_BYTES
            raise CellRefused(reason, f"'{member.name}' is not what was sealed under this name")
        yield member, data


def check_key(header: Header, wanted: Digest) -> None:
    """Raise CellRefused (wrong key) for the header of another cell than the one that was asked for."""
    if header.key != wanted:
        raise CellRefused(CellRefusal.WRONG_KEY, f"asked for {wanted.short}, this is {header.key.short}")


def size_of(file: BinaryIO) -> int:
    """The size of an open file, in bytes."""
    return os.fstat(file.fileno()).st_size


def _check_signature(head: layout.Head, ring: Keyring) -> PublicKey:
    if not head.public:
        raise CellRefused(CellRefusal.UNSIGNED, "nobody vouches for it; mint it again, or have it signed")
    signer = PublicKey(head.public)
    standing = ring.standing(signer)
    if standing == "revoked":
        raise CellRefused(CellRefusal.REVOKED_KEY, f"the key {signer.fingerprint[:16]} is trusted no more")
    if standing == "unknown":
        raise CellRefused(
            CellRefusal.UNTRUSTED_KEY, f"to load what this key signed: restrike keys trust {signer}"
        )
    if not signer.verifies(head.signature, head.header):
        raise CellRefused(
            CellRefusal.WRONG_SIGNATURE, f"the key {signer.fingerprint[:16]} did not sign this header"
        )
    return signer


def _check_size(head: layout.Head, header: Header, size_bytes: int) -> None:
    whole = head.size_bytes + header.manifest_bytes + layout.DIGEST_BYTES + header.members_bytes
    if size_bytes < whole:
        raise CellRefused(CellRefusal.TRUNCATED, f"{size_bytes} of {whole} bytes are there")
    if size_bytes > whole:
        raise CellRefused(CellRefusal.TRAILING_BYTES, f"{size_bytes - whole} bytes follow the last member")


def _check_target(header: Header, host: Host) -> None:
    wanted, own = header.facts.target, host.target
    if (wanted.kind, wanted.machine, wanted.gpu) != (own.kind, own.machine, own.gpu):
        raise CellRefused(CellRefusal.FOREIGN_ARCHITECTURE, f"made for {wanted}, this is {own}")
    if wanted.order > own.order:
        raise CellRefused(CellRefusal.NEWER_CAPABILITY, f"needs {wanted.cpu}, this has {own.cpu}")
    names = [each.name for each in capability.ladder(own.machine)]
    if wanted.cpu not in names or names.index(wanted.cpu) != wanted.order:
        raise CellRefused(CellRefusal.FOREIGN_ARCHITECTURE, f"{own.machine} has no capability '{wanted.cpu}'")


def _differences(made: Stack, own: Stack) -> str:
    pairs = [(field.name, getattr(made, field.name), getattr(own, field.name)) for field in fields(Stack)]
    return ", ".join(f"made with {name} '{one}', this is '{two}'" for name, one, two in pairs if one != two)


def _check_floor(library: str, needed: Version, own: Version) -> None:
    if needed > own:
        there = f"this has {_dotted(own)}" if own else "this has none"
        raise CellRefused(CellRefusal.LIBRARY_FLOOR, f"needs {library} {_dotted(needed)}, {there}")


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))

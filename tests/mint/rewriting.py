"""Takes a sealed cell apart and puts it together otherwise: what damage, mistakes and fraud make of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from restrike.keys import Digest, bytes_digest
from restrike.keys.encoding import decode, encode
from restrike.mint.cell import coding, layout
from restrike.mint.cell.header import Header
from restrike.mint.cell.manifest import Manifest
from restrike.mint.cell.signing import Signer


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A cell's file in its parts, each of which can be replaced."""

    header: bytes
    signed: bytes
    manifest: bytes
    members: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(cls, file: Path) -> Parts:
        """The parts of a good cell."""
        with file.open("rb") as opened:
            head = layout.head_of(opened.read(layout.HEAD_BYTES))
            header = coding.read(Header, head.header)
            manifest = layout.manifest_in(opened, head, header.manifest_bytes)
            layout.first_member(opened, head, header.manifest_bytes)
            count = len(coding.read(Manifest, manifest).members)
            members = tuple(layout.next_member(opened, header.members_bytes) for _ in range(count))
        return cls(
            header=head.header, signed=head.public + head.signature, manifest=manifest, members=members
        )

    @property
    def key(self) -> Digest:
        """The key that the header claims."""
        return coding.read(Header, self.header).key

    def write(self, file: Path) -> Path:
        """The file of these parts, with the digests that tell damage from fraud set right."""
        head = layout.Head(header=self.header, public=self.signed, signature=b"").written()
        body = b"".join(layout.member_frame(name, len(data)) + data for name, data in self.members)
        file.write_bytes(head + layout.checked(self.manifest) + body)
        return file

    def signed_by(self, signer: Signer) -> Parts:
        """The same, its header signed as it stands."""
        return replace(self, signed=signer.public.raw + signer.sign(self.header))

    def with_header(self, **changed: Any) -> Parts:
        """The same with some fields of the header replaced; one of None is left out."""
        return replace(self, header=_changed(self.header, changed))

    def with_manifest(self, **changed: Any) -> Parts:
        """The same with some fields of the manifest replaced, and a header that is of it."""
        manifest = _changed(self.manifest, changed)
        return replace(self, manifest=manifest).with_header(
            manifest={"hex": bytes_digest(manifest).hex}, manifest_bytes=len(manifest)
        )


def _changed(encoded: bytes, changed: Mapping[str, Any]) -> bytes:
    fields = decode(encoded)
    assert isinstance(fields, dict)
    merged = {**fields, **changed}
    return encode({name: value for name, value in merged.items() if value is not None})

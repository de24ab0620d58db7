"""Every refusal has its own name, and the intact cell passes the same checks."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mint.cells import FACTS, HOST, TARGET, Making, verified
from mint.rewriting import Parts
from restrike.keys import Digest
from restrike.mint.cell import layout
from restrike.mint.cell.facts import WRAPPER_EPOCH
from restrike.mint.cell.header import Header
from restrike.mint.cell.host import Host
from restrike.mint.cell.keyring import Keyring
from restrike.mint.cell.manifest import Manifest
from restrike.mint.cell.refusal import CellRefusal, CellRefused
from restrike.mint.cell.verify import check_key, verify_header, verify_host, verify_manifest


def refusal(file: Path, ring: Keyring, host: Host = HOST) -> CellRefusal:
    """The name by which a cell is refused."""
    with pytest.raises(CellRefused) as caught:
        verified(file, ring, host)
    assert str(caught.value).startswith(f"cell refused, {caught.value.reason}: ")
    return caught.value.reason


def refusal_of(data: bytes, ring: Keyring) -> CellRefusal:
    """The same of bytes in memory."""

    def check() -> None:
        opened = verify_header(data[: layout.HEAD_BYTES], len(data), ring)
        verify_manifest(io.BytesIO(data), opened)

    with pytest.raises(CellRefused) as caught:
        check()
    return caught.value.reason


def test_the_intact_cell_passes(sealed: Path, ring: Keyring) -> None:
    opened, manifest = verified(sealed, ring)
    assert opened.signer == ring.signer().public
    assert manifest.facts == FACTS
    assert [member.name for member in manifest.members] == ["data/meta.json", "graph.cpp"]


# What each check is given.


def test_the_first_bytes_are_enough_for_the_header(tmp_path: Path, ring: Keyring) -> None:
    big = Making(members={"graph.cpp": b"x" * 100_000}).sealed(tmp_path / "big.cell", ring.signer())
    data = big.read_bytes()
    opened = verify_header(data[: layout.HEAD_BYTES], len(data), ring)
    verify_host(opened.header, HOST)
    assert len(opened.head.header) < layout.MAX_HEADER_BYTES / 10


def test_what_is_published_satisfies_each_check_by_what_it_holds(sealed: Path, ring: Keyring) -> None:
    data = sealed.read_bytes()
    opened = verify_header(data[: layout.HEAD_BYTES], len(data), ring)
    # The manifest's check sees nothing of the head but what the header's check gave it.
    blank = bytes(opened.head.size_bytes) + data[opened.head.size_bytes :]
    assert verify_manifest(io.BytesIO(blank), opened).facts == FACTS


def test_header_and_manifest_hold_nothing_twice() -> None:
    def names(kind: Any) -> set[str]:
        fields = {field.name: field for field in dataclasses.fields(kind)}
        inside = fields.pop("facts").type
        return set(fields) | {str(inside)}

    assert not names(Header) & names(Manifest)


def test_a_header_is_small_whatever_the_cell(tmp_path: Path, ring: Keyring) -> None:
    from restrike.mint.cell.manifest import ConstantSpec

    many = tuple(ConstantSpec(name=f"blocks.{i}.weight", shape=(4096,), dtype="float32") for i in range(5000))
    large = Making().with_facts(constants=many).sealed(tmp_path / "large.cell", ring.signer())
    small = Making().sealed(tmp_path / "small.cell", ring.signer())
    assert abs(len(Parts.of(large).header) - len(Parts.of(small).header)) < 16


# Damage.


def test_flipped_bytes(sealed: Path, ring: Keyring, tmp_path: Path) -> None:
    parts = Parts.of(sealed)
    (first, data), *rest = parts.members
    flipped = replace(parts, members=((first, bytes([data[0] ^ 1]) + data[1:]), *rest))
    assert refusal(flipped.write(tmp_path / "x.cell"), ring) is CellRefusal.FLIPPED_BYTES


def test_any_flipped_byte_is_refused(sealed: Path, ring: Keyring) -> None:
    data = bytearray(sealed.read_bytes())
    seen: set[CellRefusal] = set()
    for place in range(len(data)):
        mask = 1 << place % 8
        data[place] ^= mask
        seen.add(refusal_of(bytes(data), ring))
        data[place] ^= mask
    assert {CellRefusal.FLIPPED_BYTES, CellRefusal.NO_HEADER, CellRefusal.WRONG_SIGNATURE} <= seen
    assert bytes(data) == sealed.read_bytes()


def test_truncated_anywhere(sealed: Path, ring: Keyring) -> None:
    data = sealed.read_bytes()
    for length in range(0, len(data), 3):
        expected = CellRefusal.NO_HEADER if length < len(layout.MAGIC) else CellRefusal.TRUNCATED
        assert refusal_of(data[:length], ring) is expected


def test_trailing_bytes(sealed: Path, ring: Keyring) -> None:
    sealed.write_bytes(sealed.read_bytes() + b"\0")
    assert refusal(sealed, ring) is CellRefusal.TRAILING_BYTES


def test_missing_header(sealed: Path, ring: Keyring) -> None:
    data = sealed.read_bytes()
    sealed.write_bytes(data[layout.head_of(data).size_bytes :])
    assert refusal(sealed, ring) is CellRefusal.NO_HEADER


def test_a_later_format(sealed: Path, ring: Keyring) -> None:
    sealed.write_bytes(sealed.read_bytes().replace(b"CELL 1\n", b"CELL 2\n", 1))
    assert refusal(sealed, ring) is CellRefusal.UNKNOWN_FORMAT


def swapped_contents(parts: Parts) -> Parts:
    (first, one), (second, two) = parts.members
    return replace(parts, members=((first, two), (second, one)))


def swapped_places(parts: Parts) -> Parts:
    return replace(parts, members=parts.members[::-1])


@pytest.mark.parametrize("swap", [swapped_contents, swapped_places])
def test_swapped_members(sealed: Path, ring: Keyring, tmp_path: Path, swap: Callable[[Parts], Parts]) -> None:
    assert refusal(swap(Parts.of(sealed)).write(tmp_path / "x.cell"), ring) is CellRefusal.SWAPPED_MEMBERS


def test_header_of_another_cell(sealed: Path, ring: Keyring, tmp_path: Path) -> None:
    # Of the same sizes, and signed: all that speaks against it is the manifest's digest.
    other = Parts.of(Making().with_facts(graph="6" * 64).sealed(tmp_path / "other.cell", ring.signer()))
    mixed = replace(Parts.of(sealed), header=other.header, signed=other.signed)
    assert refusal(mixed.write(tmp_path / "x.cell"), ring) is CellRefusal.HEADER_OF_ANOTHER


# Identity.


def test_wrong_key_is_found_though_signed(sealed: Path, ring: Keyring, tmp_path: Path) -> None:
    stamped = Parts.of(sealed).with_header(key={"hex": "7" * 64}).signed_by(ring.signer())
    assert refusal(stamped.write(tmp_path / "x.cell"), ring) is CellRefusal.WRONG_KEY


@pytest.mark.parametrize("fact", ["graph", "ingress", "layout", "options"])
def test_a_fact_that_is_not_of_the_key_is_found_though_signed(
    fact: str, sealed: Path, ring: Keyring, tmp_path: Path
) -> None:
    other = Making().with_facts(
        graph="6" * 64,
        ingress=replace(FACTS.ingress, tensors=FACTS.ingress.tensors[:1]),
        layout="channels_last",
        options={},
    )
    from restrike.keys.encoding import decode

    theirs: Any = decode(Parts.of(other.sealed(tmp_path / "o.cell", ring.signer())).manifest)
    ours: Any = decode(Parts.of(sealed).manifest)
    facts = {**ours["facts"], fact: theirs["facts"][fact]}
    forged = Parts.of(sealed).with_manifest(facts=facts).signed_by(ring.signer())
    assert refusal(forged.write(tmp_path / "x.cell"), ring) is CellRefusal.WRONG_KEY


def test_another_cell_than_the_one_asked_for(sealed: Path, ring: Keyring) -> None:
    header = verified(sealed, ring)[0].header
    check_key(header, header.key)
    with pytest.raises(CellRefused) as caught:
        check_key(header, Digest("7" * 64))
    assert caught.value.reason is CellRefusal.WRONG_KEY


# Trust.


def test_unsigned(tmp_path: Path, ring: Keyring) -> None:
    assert refusal(Making().sealed(tmp_path / "x.cell", None), ring) is CellRefusal.UNSIGNED


def test_untrusted_until_it_is_trusted(tmp_path: Path, ring: Keyring) -> None:
    theirs = Keyring(tmp_path / "theirs").signer()
    file = Making().sealed(tmp_path / "x.cell", theirs)
    assert refusal(file, ring) is CellRefusal.UNTRUSTED_KEY
    ring.trust(theirs.public, "theirs")
    verified(file, ring)


def test_revoked(sealed: Path, ring: Keyring) -> None:
    verified(sealed, ring)
    ring.revoke(ring.signer().public.fingerprint, "its disk was stolen")
    assert refusal(sealed, ring) is CellRefusal.REVOKED_KEY


def test_wrong_signature_of_a_trusted_key(sealed: Path, ring: Keyring, tmp_path: Path) -> None:
    parts = Parts.of(sealed)
    altered = parts.with_header(floor={"glibc": (), "libstdcxx": (1,)})
    assert refusal(altered.write(tmp_path / "x.cell"), ring) is CellRefusal.WRONG_SIGNATURE
    elsewhere = replace(parts, signed=ring.signer().public.raw + ring.signer().sign(b"another header"))
    assert refusal(elsewhere.write(tmp_path / "y.cell"), ring) is CellRefusal.WRONG_SIGNATURE


# The machine.


HOSTS = {
    CellRefusal.FOREIGN_ARCHITECTURE: [
        {"target": replace(TARGET, machine="aarch64", cpu="DEFAULT", order=0)},
        {"target": replace(TARGET, kind="cuda", gpu="sm_90")},
    ],
    CellRefusal.NEWER_CAPABILITY: [{"target": replace(TARGET, cpu="DEFAULT", order=0)}],
    CellRefusal.OTHER_TORCH: [{"torch": "2.12.0+cpu"}, {"torch": "2.13.0+cu130"}],
}


@pytest.mark.parametrize(
    ("reason", "other"), [(reason, other) for reason, others in HOSTS.items() for other in others]
)
def test_another_machine(reason: CellRefusal, other: dict[str, Any], sealed: Path, ring: Keyring) -> None:
    assert refusal(sealed, ring, replace(HOST, **other)) is reason


def test_a_newer_machine_loads_older_code(sealed: Path, ring: Keyring) -> None:
    verified(sealed, ring, replace(HOST, target=replace(TARGET, cpu="AVX512", order=2), glibc=(2, 40)))


def test_a_capability_nobody_knows(tmp_path: Path, ring: Keyring) -> None:
    odd = Making(target=replace(TARGET, cpu="AVX9")).sealed(tmp_path / "x.cell", ring.signer())
    assert refusal(odd, ring) is CellRefusal.FOREIGN_ARCHITECTURE
    later = Making(target=replace(TARGET, cpu="AVX9", order=9)).sealed(tmp_path / "y.cell", ring.signer())
    assert refusal(later, ring) is CellRefusal.NEWER_CAPABILITY


def test_another_gpu(tmp_path: Path, ring: Keyring) -> None:
    def on(gpu: str) -> Host:
        return replace(HOST, target=replace(TARGET, kind="cuda", gpu=gpu), triton="3.5.0")

    making = Making(target=on("sm_90").target, stack=on("sm_90").stack("aot"))
    file = making.sealed(tmp_path / "x.cell", ring.signer())
    verified(file, ring, on("sm_90"))
    assert refusal(file, ring, on("sm_80")) is CellRefusal.FOREIGN_ARCHITECTURE
    assert refusal(file, ring, replace(on("sm_90"), triton="3.4.0")) is CellRefusal.OTHER_STACK


def test_another_wrapper(tmp_path: Path, ring: Keyring) -> None:
    making = Making(stack=replace(HOST.stack("aot"), epoch="0"))
    with pytest.raises(CellRefused, match=f"made with epoch '0', this is '{WRAPPER_EPOCH}'"):
        verified(making.sealed(tmp_path / "y.cell", ring.signer()), ring)
    assert refusal(making.sealed(tmp_path / "x.cell", ring.signer()), ring) is CellRefusal.OTHER_STACK


# The form.


def test_every_field_of_the_header_is_asked_for(sealed: Path, ring: Keyring, tmp_path: Path) -> None:
    for name in (field.name for field in dataclasses.fields(Header)):
        less = Parts.of(sealed).with_header(**{name: None}).signed_by(ring.signer())
        assert refusal(less.write(tmp_path / "x.cell"), ring) is CellRefusal.MALFORMED


def test_every_field_of_the_manifest_is_asked_for(sealed: Path, ring: Keyring, tmp_path: Path) -> None:
    for name in (field.name for field in dataclasses.fields(Manifest)):
        less = Parts.of(sealed).with_manifest(**{name: None}).signed_by(ring.signer())
        assert refusal(less.write(tmp_path / "x.cell"), ring) is CellRefusal.MALFORMED


def test_no_more_fields_are_taken_than_are_known(sealed: Path, ring: Keyring, tmp_path: Path) -> None:
    for more in (Parts.of(sealed).with_header(also=1), Parts.of(sealed).with_manifest(also=1)):
        assert (
            refusal(more.signed_by(ring.signer()).write(tmp_path / "x.cell"), ring) is CellRefusal.MALFORMED
        )


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/../../b", "a//b", "", "C:/x", "a\\b", "./a"])
def test_a_member_can_lie_nowhere_else(name: str, sealed: Path, ring: Keyring, tmp_path: Path) -> None:
    member = {"name": name, "size_bytes": 1, "digest": {"hex": "0" * 64}}
    forged = Parts.of(sealed).with_manifest(members=(member,)).signed_by(ring.signer())
    assert refusal(forged.write(tmp_path / "x.cell"), ring) is CellRefusal.MALFORMED


def test_bytes_that_are_no_header(sealed: Path, ring: Keyring, tmp_path: Path) -> None:
    for nonsense in (b"", b"\xff", b"\xa0", b"[]", b"\xc1\x00"):
        signed = replace(Parts.of(sealed), header=nonsense).signed_by(ring.signer())
        assert refusal(signed.write(tmp_path / "x.cell"), ring) is CellRefusal.MALFORMED

"""Weights are found in whatever wrapping they come, and code without them passes."""

from __future__ import annotations

import io
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mint.cells import MEMBERS, Making, verified
from mint.rewriting import Parts
from restrike.keys import bytes_digest
from restrike.mint.cell import contents, elf
from restrike.mint.cell.header import Floor
from restrike.mint.cell.keyring import Keyring
from restrike.mint.cell.refusal import CellRefusal, CellRefused

SOURCE = r"""
#include <cstdlib>
#include <string>
std::string name(std::string given) {{ return given + std::getenv("HOME") + "a longer text than fits"; }}
__asm__(".section .lrodata,\"a\"\n.globl _binary_constants_bin_start\n_binary_constants_bin_start:\n"
        ".space {size}\n.globl _binary_constants_bin_end\n_binary_constants_bin_end:\n");
"""
Compile = Callable[[int], bytes]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """A real shared object with so many bytes of constants, under the names that torch gives them."""
    folder = tmp_path_factory.mktemp("objects")

    def compile(size: int) -> bytes:
        source, target = folder / f"{size}.cpp", folder / f"{size}.so"
        source.write_text(SOURCE.format(size=size))
        subprocess.run(["g++", "-shared", "-fPIC", "-o", target, source], check=True)
        return target.read_bytes()

    return compile


def package(files: dict[str, bytes]) -> bytes:
    """A package as torch writes it: a zip that stores."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as written:
        for name, data in files.items():
            written.writestr(name, data)
    return buffer.getvalue()


def refusal(name: str, data: bytes) -> CellRefused:
    with pytest.raises(CellRefused) as caught:
        contents.check_code_only(name, data)
    return caught.value


def test_code_passes(compiled: Compile) -> None:
    for size in (0, 1):
        contents.check_code_only("graph.so", compiled(size))
        inside = package({"m/data/aotinductor/model/a.wrapper.so": compiled(size), "m/version": b"1"})
        contents.check_code_only("graph.pt2", inside)
    contents.check_code_only("notes.json", b"{}")


def test_constants_in_a_shared_object_are_found(compiled: Compile) -> None:
    assert elf.constants_bytes(compiled(4096)) == 4096
    for name, data in (("a.so", compiled(4096)), ("g.pt2", package({"m/a.so": compiled(4096)}))):
        found = refusal(name, data)
        assert found.reason is CellRefusal.WEIGHTS_INSIDE
        assert "4096 bytes" in str(found)


def test_weights_hung_on_behind_a_shared_object_are_found(compiled: Compile) -> None:
    assert refusal("a.so", compiled(1) + bytes(8192)).reason is CellRefusal.WEIGHTS_INSIDE


def test_an_object_ends_where_its_last_table_does(compiled: Compile) -> None:
    # Code for a GPU has its program table behind all else.
    data = bytearray(compiled(1))
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    table = bytes(data[start : start + size * count])
    assert len(table) > 64
    struct.pack_into("<Q", data, 32, len(data))
    contents.check_code_only("kernel.cubin", bytes(data) + table)
    assert refusal("kernel.cubin", bytes(data) + table + bytes(100)).reason is CellRefusal.WEIGHTS_INSIDE


def array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(4))
    return buffer.getvalue()


def safetensors() -> bytes:
    from safetensors.numpy import save

    return save({"w": np.zeros(4, np.float32)})


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("model.safetensors", b""),
        ("weights.blob", b""),
        ("anything", safetensors()),
        ("anything", array()),
        ("anything", b"GGUF\x03\0\0\0"),
        ("model.bin", package({"archive/data.pkl": b"", "archive/data/0": bytes(16)})),
        ("graph.pt2", package({"g/data/weights/w": b"x"})),
        ("graph.pt2", package({"g/data/constants/c": b"x"})),
        ("outer.zip", package({"inner.zip": package({"deep.npz": b"x"})})),
    ],
)
def test_weights_in_any_wrapping_are_found(name: str, data: bytes) -> None:
    assert refusal(name, data).reason is CellRefusal.WEIGHTS_INSIDE


@pytest.mark.parametrize("keep", [3, 30, 60, 300, -10])
def test_what_is_cut_short_is_refused(keep: int, compiled: Compile) -> None:
    whole = compiled(1)
    if keep != 3:
        assert refusal("a.so", whole[:keep]).reason is CellRefusal.MALFORMED
    assert refusal("g.pt2", package({"a.so": whole})[: max(keep, 30)]).reason is CellRefusal.MALFORMED


def test_weights_are_found_though_signed(sealed: Path, ring: Keyring, tmp_path: Path) -> None:
    # Sealed by something that does not look: the reader does.
    data = safetensors()
    member = {"name": "w", "size_bytes": len(data), "digest": {"hex": bytes_digest(data).hex}}
    parts = Parts.of(sealed).with_manifest(members=(member,)).with_header(members_bytes=4 + 1 + 8 + len(data))
    from dataclasses import replace

    file = replace(parts, members=(("w", data),)).signed_by(ring.signer()).write(tmp_path / "x.cell")
    with pytest.raises(CellRefused) as caught:
        verified(file, ring)
    assert caught.value.reason is CellRefusal.WEIGHTS_INSIDE


def test_the_size_of_a_cell_does_not_grow_with_the_checkpoint(tmp_path: Path, ring: Keyring) -> None:
    from restrike.mint.cell.manifest import ConstantSpec

    def size(width: int) -> int:
        constants = (ConstantSpec(name="w", shape=(width, width), dtype="float32"),)
        making = Making().with_facts(constants=constants)
        return making.sealed(tmp_path / f"{width}.cell", ring.signer()).stat().st_size

    assert size(8) == size(20)


def test_the_floor_is_what_the_code_is_bound_to(compiled: Compile, tmp_path: Path, ring: Keyring) -> None:
    floor = contents.floor_of("a.so", compiled(1))
    assert floor.glibc >= (2, 2)
    assert floor.libstdcxx >= (3, 4)
    assert contents.floor_of("g.pt2", package({"x/a.so": compiled(1)})) == floor
    assert contents.floor_of("notes.txt", b"GLIBC_9.9\0") == Floor(glibc=(), libstdcxx=())


def test_older_libraries_refuse_the_cell(compiled: Compile, tmp_path: Path, ring: Keyring) -> None:
    from dataclasses import replace

    from mint.cells import HOST

    file = Making(members={**MEMBERS, "a.so": compiled(1)}).sealed(tmp_path / "a.cell", ring.signer())
    floor = verified(file, ring)[0].header.floor
    verified(file, ring, replace(HOST, glibc=floor.glibc, libstdcxx=floor.libstdcxx))
    for older in ({"glibc": (2, 1)}, {"libstdcxx": (3, 3)}, {"libstdcxx": ()}):
        with pytest.raises(CellRefused) as caught:
            verified(file, ring, replace(HOST, **older))
        assert caught.value.reason is CellRefusal.LIBRARY_FLOOR


def test_a_floor_that_is_not_that_of_the_code_is_found(sealed: Path, ring: Keyring, tmp_path: Path) -> None:
    lower = Parts.of(sealed).with_header(floor={"glibc": (2, 1), "libstdcxx": ()}).signed_by(ring.signer())
    with pytest.raises(CellRefused) as caught:
        verified(lower.write(tmp_path / "x.cell"), ring)
    assert caught.value.reason is CellRefusal.LIBRARY_FLOOR

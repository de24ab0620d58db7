"""Cells for tests: real sealed files of a few small members, with whatever a test wants to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from restrike.mint.cell import layout
from restrike.mint.cell.facts import Ingress, Stack, Target, TensorSpec
from restrike.mint.cell.header import HeaderFacts
from restrike.mint.cell.host import Host
from restrike.mint.cell.keyring import Keyring
from restrike.mint.cell.manifest import ConstantSpec, Manifest, ManifestFacts, Phase, Proof
from restrike.mint.cell.seal import seal
from restrike.mint.cell.signing import Signer
from restrike.mint.cell.verify import Opened, size_of, verify_header, verify_host, verify_manifest

TARGET = Target(kind="cpu", machine="x86_64", cpu="AVX2", order=1, gpu="")
HOST = Host(target=TARGET, torch="2.13.0+cpu", triton="", python="3.11", glibc=(2, 36), libstdcxx=(3, 4, 30))
STACK: Stack = HOST.stack("aot")
INGRESS = Ingress(
    tensors=(
        TensorSpec(name="latent_BCHW", shape=((1, 4), 4, 8, 8), dtype="float32"),
        TensorSpec(name="timestep", shape=(), dtype="int64"),
    )
)
PROOF = Proof(max_difference=1e-6, tolerance=1e-4, eager_s=0.02, cell_s=0.01)
FACTS = ManifestFacts(
    graph="5" * 64,
    ingress=INGRESS,
    layout="contiguous",
    options={"max_autotune": False},
    constants=(ConstantSpec(name="block.weight", shape=(8, 8), dtype="float32"),),
    compiler="g++ 12.2.0",
    phases=(Phase(name="load", seconds=1.5, peak_bytes=1 << 20),),
    proof=PROOF,
)
MEMBERS = {"graph.cpp": b"int main() { return 0; }\n", "data/meta.json": b'{"device": "cpu"}'}


@dataclass(frozen=True, kw_only=True)
class Making:
    """What a cell is made of; by default a good one."""

    stack: Stack = STACK
    target: Target = TARGET
    facts: ManifestFacts = FACTS
    members: Mapping[str, bytes] = field(default_factory=lambda: MEMBERS)

    def sealed(self, to: Path, signer: Signer | None) -> Path:
        """The sealed file, and beside it the folder that it was made from."""
        folder = to.with_suffix(".folder")
        for name, data in self.members.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return seal(
            folder,
            header=HeaderFacts(stack=self.stack, target=self.target),
            manifest=self.facts,
            signer=signer,
            to=to,
        )

    def with_facts(self, **changed: Any) -> Making:
        """The same with other facts in its manifest."""
        return replace(self, facts=replace(self.facts, **changed))


def verified(file: Path, ring: Keyring, host: Host = HOST) -> tuple[Opened, Manifest]:
    """All checks in the order in which a store makes them."""
    with file.open("rb") as opened_file:
        opened = verify_header(opened_file.read(layout.HEAD_BYTES), size_of(opened_file), ring)
        verify_host(opened.header, host)
        return opened, verify_manifest(opened_file, opened)

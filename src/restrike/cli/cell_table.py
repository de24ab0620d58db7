"""A cell as a table for a person: what it is for, what it computes, how it was made."""

from __future__ import annotations

from restrike.cli.tables import Rows, show, size_of
from restrike.mint.cell.facts import bounds
from restrike.mint.cell.header import Version
from restrike.mint.cell.manifest import Manifest, Proof
from restrike.mint.cell.verify import Opened


def print_cell(opened: Opened, manifest: Manifest) -> None:
    """Print all that a verified cell says of itself."""
    header, facts = opened.header, manifest.facts
    stack = header.facts.stack
    rows = Rows()
    rows.add("key", header.key.hex)
    rows.add("signed by", opened.signer.fingerprint[:16])
    rows.add("recipe", stack.recipe)
    rows.add("target", header.facts.target)
    rows.add("torch", stack.torch)
    rows.add("compiled by", facts.compiler)
    rows.add("needs", f"glibc {_dotted(header.floor.glibc)}, libstdc++ {_dotted(header.floor.libstdcxx)}")
    rows.add("graph", facts.graph)
    rows.add("layout", facts.layout)
    for name, value in facts.options.items():
        rows.add(f"option {name}", value)
    rows.add("proof", _proof(facts.proof))
    rows.section("call")
    for tensor in facts.ingress.tensors:
        axes = " × ".join("-".join(map(str, dict.fromkeys(bounds(size)))) for size in tensor.shape)
        rows.add(tensor.name, f"{axes or 'scalar'} {tensor.dtype}")
    rows.section(f"constants: {len(facts.constants)} tensors, bound from the resident weights")
    rows.section("made in")
    for phase in facts.phases:
        rows.add(phase.name, f"{phase.seconds:.1f} s, {size_of(phase.peak_bytes)} at most")
    rows.section("members")
    for member in manifest.members:
        rows.add(size_of(member.size_bytes), member.name)
    show(rows.table)


def _proof(proof: Proof | None) -> str:
    if proof is None:
        return "none"
    faster = proof.eager_s / proof.cell_s if proof.cell_s else 0.0
    return f"{proof.max_difference:.2g} from eager ({proof.tolerance:.2g} allowed), {faster:.2f}x as fast"


def _dotted(version: Version) -> str:
    return ".".join(map(str, version)) or "of any version"

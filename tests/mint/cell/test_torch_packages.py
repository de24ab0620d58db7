"""What torch itself writes: a package with its weights inside is refused, the same without them is sealed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mint.cells import Making, verified
from restrike.mint.cell.keyring import Keyring
from restrike.mint.cell.refusal import CellRefusal, CellRefused

pytestmark = pytest.mark.slow


def package(folder: Path, *, weights_inside: bool) -> bytes:
    """A real compiled package of a linear layer of 64 KiB."""
    import torch

    layer = torch.nn.Linear(128, 128).eval()
    program = torch.export.export(layer, (torch.zeros(2, 128),))
    path = torch._inductor.aoti_compile_and_package(
        program,
        package_path=str(folder / "graph.pt2"),
        inductor_configs={
            "aot_inductor.package_constants_in_so": weights_inside,
            "always_keep_tensor_constants": True,
        },
    )
    return Path(path).read_bytes()


@pytest.mark.filterwarnings("default")
def test_a_package_is_sealed_only_without_its_weights(tmp_path: Path, ring: Keyring) -> None:
    bare = Making(members={"graph.pt2": package(tmp_path, weights_inside=False)})
    opened, _ = verified(bare.sealed(tmp_path / "a.cell", ring.signer()), ring)
    assert opened.header.floor.glibc >= (2, 17)
    assert opened.header.floor.libstdcxx >= (3, 4)
    full = Making(members={"graph.pt2": package(tmp_path, weights_inside=True)})
    with pytest.raises(CellRefused, match="bytes of constants") as caught:
        full.sealed(tmp_path / "b.cell", ring.signer())
    assert caught.value.reason is CellRefusal.WEIGHTS_INSIDE

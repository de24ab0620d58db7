"""The local recipe's bundle: one that saved nothing is a failure, and one is put back whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from restrike.errors import Crashed
from restrike.mint.cell.facts import Ingress, TensorSpec
from restrike.mint.recipes import dynamo

INGRESS = Ingress(tensors=(TensorSpec(name="latent", shape=(1, 4), dtype="float32"),))


def call(component: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    return component(inputs["latent"])


def test_a_bundle_that_saved_nothing_is_a_failure_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where the compiler was switched off: the call ran, and nothing was kept of it.
    monkeypatch.setattr(
        dynamo, "compiled", lambda component, *given: lambda inputs: component(*inputs.values())
    )
    probes = [{"latent": torch.ones(1, 4)}]
    with pytest.raises(Crashed, match="its bundle is empty"):
        dynamo.build(nn.Identity(), call, INGRESS, probes, tmp_path / "members", {})
    assert not (tmp_path / "members").exists()


def test_a_library_appears_whole_and_one_that_is_there_stays(tmp_path: Path) -> None:
    source, to = tmp_path / "bundle", tmp_path / "cache"
    (source / "ab").mkdir(parents=True)
    (source / "ab" / "code.so").write_bytes(b"whole")
    dynamo._put(source / "ab" / "code.so", source, to)
    assert (to / "ab" / "code.so").read_bytes() == b"whole"
    assert [path.name for path in (to / "ab").iterdir()] == ["code.so"]
    (source / "ab" / "code.so").write_bytes(b"another")
    dynamo._put(source / "ab" / "code.so", source, to)
    assert (to / "ab" / "code.so").read_bytes() == b"whole"

"""Weights that differ from their files are never lost to residency: asleep, awake or short of memory."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch import nn

from engine.driving import bytes_of
from restrike.cards.adapters import Adapter
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.memory.residency import Asleep
from restrike.engine.weights import overlay
from restrike.engine.weights.overlay import write

from .loras import state

BASE = Request(prompt="a 3", seed=7, steps=4)


def with_file(file: Path) -> Request:
    return Request(prompt="a 3", seed=7, steps=4, adapters=(Adapter(file),))


def synced(engine: Engine, version: int = 1) -> None:
    module: nn.Module = engine.load("digits").component("transformer")
    generator = torch.Generator().manual_seed(version)
    new = {
        name: value + 0.05 * torch.randn(value.shape, generator=generator)
        for name, value in module.state_dict().items()
    }
    engine.sync("digits", "transformer", new, version)


def test_fused_adapters_and_synced_weights_wake_as_they_slept(own: Engine, a: Path) -> None:
    resident = own.load("digits")
    synced(own)
    base, made = bytes_of(own, BASE), bytes_of(own, with_file(a))
    before = state(resident.component("transformer"))
    resident.sleep()
    resident.wake()
    assert state(resident.component("transformer")) == before
    assert bytes_of(own, with_file(a)) == made
    assert bytes_of(own, BASE) == base
    resident.sleep()
    resident.wake()
    assert bytes_of(own, with_file(a)) == made


def test_a_component_is_marked_while_it_differs_from_its_files(own: Engine, a: Path) -> None:
    (part,) = own.load("digits").parts("transformer")
    assert not part.altered
    bytes_of(own, with_file(a))
    assert part.altered
    bytes_of(own, BASE)
    assert not part.altered
    synced(own)
    assert part.altered
    bytes_of(own, with_file(a))
    bytes_of(own, BASE)
    assert part.altered
    assert not any(other.altered for other in own.load("digits").parts("text_encoder", "decoder"))


def test_a_refused_adapter_leaves_no_mark(own: Engine, tmp_path: Path, transformer: nn.Module) -> None:
    from .loras import lora, written

    file = written(tmp_path / "x.safetensors", lora(transformer) | {"transformer.x.dora": torch.ones(1)})
    (outcome,) = own.generate_interleaved([("digits", with_file(file))])
    assert outcome.error is not None
    assert not any(part.altered for part in own.load("digits").parts())


def test_a_component_that_was_dropped_is_fused_anew(own: Engine, a: Path) -> None:
    made = bytes_of(own, with_file(a))
    base = bytes_of(own, BASE)
    resident = own.load("digits")
    resident.sleep()
    resident.wake()
    assert bytes_of(own, with_file(a)) == made
    assert bytes_of(own, BASE) == base


def test_adapters_that_could_not_be_undone_are_undone_before_the_next_request(own: Engine, a: Path) -> None:
    base, made = bytes_of(own, BASE), bytes_of(own, with_file(a))
    resident = own.load("digits")
    resident.sleep("transformer")
    with pytest.raises(Asleep):
        own.generate("digits", BASE)
    resident.wake("transformer")
    assert bytes_of(own, BASE) == base
    assert bytes_of(own, with_file(a)) == made


@pytest.mark.parametrize("writes", range(5))
def test_a_fuse_whose_undoing_fails_as_well_is_undone_later(
    own: Engine, a: Path, b: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    base, made = bytes_of(own, BASE), bytes_of(own, with_file(a))
    left = iter(range(writes))

    def failing(parameter: torch.Tensor, value: torch.Tensor) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        write(parameter, value)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(overlay, "write", failing)
        own.generate("digits", with_file(b))
    assert bytes_of(own, BASE) == base
    assert bytes_of(own, with_file(a)) == made


@pytest.mark.parametrize("fused", [True, False], ids=["adapters", "base"])
@pytest.mark.parametrize("writes", range(3))
def test_what_was_fused_before_such_a_failure_is_not_taken_for_it_after(
    own: Engine, a: Path, b: Path, monkeypatch: pytest.MonkeyPatch, writes: int, fused: bool
) -> None:
    before = with_file(a) if fused else BASE
    made, left = bytes_of(own, before), iter(range(writes))

    def failing(parameter: torch.Tensor, value: torch.Tensor) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        write(parameter, value)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(overlay, "write", failing)
        own.generate("digits", with_file(b))
    assert bytes_of(own, before) == made


def test_the_version_of_a_component_names_the_adapters_that_are_fused_into_it(own: Engine, a: Path) -> None:
    plain = own.version_of("digits", "transformer")
    own.generate("digits", with_file(a))
    fused = own.version_of("digits", "transformer")
    assert (plain.adapters, len(fused.adapters)) == ((), 1)
    assert own.version_of("digits", "text_encoder").adapters == ()
    own.generate("digits", BASE)
    assert own.version_of("digits", "transformer") == plain

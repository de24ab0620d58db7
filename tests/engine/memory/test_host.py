"""Components move to main memory and back bit for bit. The device here is a CPU, whose moves are copies."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from restrike.engine.memory.host import Host
from restrike.engine.memory.sizes import Ledger, storages_of

from .rooms import CPU, SIZE_BYTES, layer

HOST = Host(free_bytes=lambda: 1000)


def test_there_is_room_below_what_is_kept_free() -> None:
    assert HOST.has_room(900)
    assert not HOST.has_room(901)
    assert not Host(free_bytes=lambda: None).has_room(1)


def test_what_is_taken_frees_the_device_and_comes_back_the_same() -> None:
    module, ledger = layer(), Ledger()
    weight, before = module.weight, {name: value.clone() for name, value in module.state_dict().items()}
    ledger.note(storages_of(module, CPU))
    parked = HOST.take(module, CPU)
    assert ledger.n_bytes == 0
    HOST.give(module, CPU, parked)
    assert module.weight is weight
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_what_cannot_be_taken_whole_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    module, original, calls = layer(), torch.empty_like, [0]
    before = {name: value.clone() for name, value in module.state_dict().items()}

    def failing(tensor: torch.Tensor, **where: object) -> torch.Tensor:
        calls[0] += 1
        if calls[0] == 2:
            raise RuntimeError("no page-locked memory")
        return original(tensor)

    monkeypatch.setattr(torch, "empty_like", failing)
    with pytest.raises(RuntimeError, match="page-locked"):
        HOST.take(module, CPU)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_a_parameter_that_two_modules_share_stays_shared() -> None:
    one, other = layer(1), layer(2)
    other.weight = one.weight
    both = nn.ModuleList([one, other])
    HOST.give(both, CPU, HOST.take(both, CPU))
    assert one.weight is other.weight
    assert len(storages_of(both, CPU)) == 3


def test_weights_that_were_moved_in_inference_mode_can_be_written_to() -> None:
    module = layer()
    module.register_buffer("scale", torch.ones(4))
    with torch.inference_mode():
        HOST.give(module, CPU, HOST.take(module, CPU))
    module.weight.add_(1)
    module.get_buffer("scale").add_(1)
    assert storages_of(module, CPU)[0].nbytes() < SIZE_BYTES

"""Bytes are counted on real tensors, each storage once, for as long as it is alive."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from restrike.engine.memory.sizes import Ledger, modules_of, resident_bytes, shown, storages_of

from .rooms import CPU, SIZE_BYTES, layer


class Pipeline:
    """What every pipeline of diffusers looks like from outside."""

    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)
        self.scheduler = object()

    @property
    def components(self) -> dict[str, Any]:
        return vars(self)

    def to(self, device: torch.device) -> Pipeline:
        return self


def test_parameters_and_buffers_count() -> None:
    module = nn.BatchNorm1d(8)
    assert resident_bytes(module, CPU) == 4 * (8 + 8 + 8 + 8) + 8


def test_a_storage_that_two_modules_share_counts_once() -> None:
    one, other = layer(), layer()
    other.weight = one.weight
    assert resident_bytes(nn.ModuleList([one, other]), CPU) == SIZE_BYTES + 4 * 16


def test_views_of_one_storage_count_once() -> None:
    module = layer()
    module.register_buffer("part", module.weight[:2])
    assert resident_bytes(module, CPU) == SIZE_BYTES


def test_a_pipeline_is_walked_and_the_pipelines_inside_it() -> None:
    inner, outer = layer(1), layer(2)
    pipeline = Pipeline(unet=outer, prior=Pipeline(unet=inner, again=outer), name="a name")
    assert set(modules_of(pipeline)) == {inner, outer}
    assert resident_bytes(pipeline, CPU) == 2 * SIZE_BYTES


def test_what_has_no_modules_has_no_bytes() -> None:
    assert resident_bytes(object(), CPU) == resident_bytes({"weight": torch.ones(3)}, CPU) == 0


def test_tensors_elsewhere_are_not_counted() -> None:
    assert resident_bytes(layer().to("meta"), CPU) == 0


def test_a_ledger_counts_a_storage_once_however_often_it_is_noted() -> None:
    ledger, module = Ledger(), layer()
    ledger.note(storages_of(module, CPU))
    ledger.note(storages_of(nn.ModuleList([module]), CPU))
    assert ledger.n_bytes == SIZE_BYTES


def test_a_ledger_counts_what_is_given_up_until_nobody_holds_it() -> None:
    ledger, module = Ledger(), layer()
    ledger.note(storages_of(module, CPU))
    row = module.weight[0]
    del module
    assert ledger.n_bytes == 4 * 16 * 16
    del row
    assert ledger.n_bytes == 0


def test_a_ledger_stays_right_while_memory_is_used_again() -> None:
    ledger = Ledger()
    for seed in range(200):
        module = layer(seed)
        ledger.note(storages_of(module, CPU))
        assert ledger.n_bytes <= 2 * SIZE_BYTES
    assert ledger.n_bytes == SIZE_BYTES


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (8e9, "8.0 GB"), (3e13, "30.0 TB")],
)
def test_sizes_are_shown_for_a_person(size_bytes: float, text: str) -> None:
    assert shown(size_bytes) == text

"""Devices by name, and processes that see only their own."""

from __future__ import annotations

import pytest

from restrike.errors import Refused
from restrike.server.devices import slots_of


def test_each_worker_has_a_device() -> None:
    first, second, third = slots_of("cpu:0, cpu:1,cuda:1")

    assert (first.device, first.torch_device) == ("cpu:0", "cpu")
    assert (second.device, second.torch_device) == ("cpu:1", "cpu")
    assert (third.device, third.torch_device) == ("cuda:1", "cuda:0")
    assert slots_of("cpu")[0].device == "cpu:0"


@pytest.mark.parametrize("text", ["", "gpu:0", "cpu:0,cpu:0", "cpu,cpu:0", "cuda:x", "cpu:0;rm"])
def test_what_is_no_device_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="device"):
        slots_of(text)


def test_a_process_sees_its_own_gpu_and_no_other() -> None:
    (slot,) = slots_of("cuda:1")

    assert slot.environment({})["CUDA_VISIBLE_DEVICES"] == "1"
    assert slot.environment({"CUDA_VISIBLE_DEVICES": "5,7"})["CUDA_VISIBLE_DEVICES"] == "7"
    with pytest.raises(Refused, match="1 visible"):
        slot.environment({"CUDA_VISIBLE_DEVICES": "5"})
    (cpu,) = slots_of("cpu:0")
    assert cpu.environment({"A": "b"}) == {"A": "b", "CUDA_VISIBLE_DEVICES": ""}

"""The small parts: what is watched, compared, perturbed, traced and measured."""

from __future__ import annotations

import threading
import types
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from restrike.engine.capture.contents import ContentsMemo, named_tensors
from restrike.engine.capture.counters import Break, Tally
from restrike.engine.capture.host_values import HostValues, TooMuch
from restrike.engine.capture.proof import difference, perturbed
from restrike.engine.capture.timing import LEAST_PAIRS, MOST_PAIRS, Measurement, Pair, measured
from restrike.engine.capture.trace import Inspection
from restrike.engine.reasons import REASONS_KEPT

from .lab import Denoiser


def values(value: Any) -> HostValues:
    return HostValues({"step": value})


def changed(before: Any, now: Any) -> str | None:
    return values(now).difference(values(before))


@dataclass(frozen=True, slots=True)
class Slotted:
    number: float


class Called:
    def __call__(self, number: float = 0.5) -> float:
        return number


DIFFERENT = {
    "step[1] was 2 and is now 3": ([1, 2], [1, 3]),
    "step['a'] was 1 and is now True": ({"a": 1}, {"a": True}),
    "step.number was 0.0 and is now -0.0": (Slotted(0.0), Slotted(-0.0)),
    "step[0] appeared, with 1": (1, [1]),
    "step['b'] appeared, with 1": ({"a": 1}, {"b": 1}),
    "what hangs on the step is of other kinds": ([], {}),
    "step[1] appeared, with 2": ([1], [1, 2]),
    "step.args[0] was 'a' and is now 'b'": (partial(print, "a"), partial(print, "b")),
    "step.keywords['end'] was 'a' and is now 'b'": (partial(print, end="a"), partial(print, end="b")),
    "step[0] was torch.float32 and is now torch.float16": ([torch.float32], [torch.float16]),
    "step{}[0] was '1' and is now '2'": ({1}, {2}),
    "step was range(0, 2) and is now range(0, 3)": (range(2), range(3)),
    f"step[0] was {np.float32(0.5)!r} and is": ([np.float32(0.5)], [np.float32(0.25)]),
    "step[1]{}[0] was '2' and is now '3'": ([{1}, {2}], [{1}, {3}]),
    "step[0] was 1 and is now 2": (deque([1]), deque([2])),
    "step was b'": (np.ones(2), np.zeros(2)),
}


@pytest.mark.parametrize("told", DIFFERENT)
def test_a_host_value_that_differs_is_named(told: str) -> None:
    before, now = DIFFERENT[told]
    found = changed(before, now)
    assert found is not None
    assert found.startswith(told)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        np.float32("nan"),
        [1, (2.0, "three")],
        Slotted(1.5),
        Called(),
        torch.ones(2),
        nn.Linear(2, 2),
        types,
        print,
    ],
)
def test_equal_host_values_are_no_difference(value: Any) -> None:
    assert changed(value, value) is None


def test_what_a_tensor_holds_is_not_looked_at() -> None:
    assert changed({"x": torch.ones(2)}, {"x": torch.zeros(2)}) is None


def test_a_ring_ends_and_a_heap_is_refused() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert changed(ring, ring) is None
    with pytest.raises(TooMuch, match="too much hangs on the step to be watched, at step"):
        values([[number] for number in range(1000)])


BITS = [
    (torch.tensor([float("nan"), 0.0]), torch.tensor([float("nan"), 0.0]), None),
    (torch.tensor([0.0]), torch.tensor([-0.0]), "output 'y' differs by up to 0"),
    (torch.tensor([1.0]), torch.tensor([1.0 + 2**-23]), "output 'y' differs by up to 1.19e-07"),
    (torch.tensor(True), torch.tensor(False), "output 'y' differs"),
    (torch.ones(2), torch.ones(1, 2), "output 'y' has another shape or dtype"),
    (torch.ones(2), torch.ones(2, dtype=torch.float64), "output 'y' has another shape or dtype"),
    (torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.complex64), None),
]


@pytest.mark.parametrize(("one", "other", "told"), BITS)
def test_outputs_are_compared_bit_for_bit(one: Tensor, other: Tensor, told: str | None) -> None:
    assert difference({"y": one}, {"y": other}) == told


def test_outputs_of_other_names_differ() -> None:
    told = difference({"y": torch.ones(1)}, {"z": torch.ones(1)})
    assert told == "eager gives y, the replay z"


def test_perturbed_inputs_are_others_of_the_same_layout_and_valid() -> None:
    inputs = {
        "latent": torch.randn(2, 3),
        "sigma": torch.tensor(0.8),
        "positions": torch.tensor([0, 1, 2]),
        "mask": torch.tensor([True, False]),
        "wide": torch.randn(1, 3).expand(2, 3),
        "turned": torch.randn(3, 2).t(),
    }
    other = perturbed(inputs)
    assert all(
        (each.shape, each.stride()) == (other[n].shape, other[n].stride()) for n, each in inputs.items()
    )
    assert all(not torch.equal(each, other[name]) for name, each in inputs.items())
    assert sorted(other["positions"].tolist()) == [0, 1, 2]
    assert 0 < float(other["sigma"]) < 1


def test_a_trace_measures_what_a_step_makes_and_holds_at_once() -> None:
    with Inspection({}) as inspection:
        made = torch.ones(1000)
        for _ in range(10):
            made = made * 2
    trace = inspection.trace()
    assert len(trace.operations) == 11
    assert trace.produced_bytes == 11 * 4000
    assert trace.peak_bytes == 2 * 4000


def test_a_trace_names_where_steps_part() -> None:
    def trace(run: Any) -> Any:
        with Inspection({}) as inspection:
            run(torch.ones(2))
        return inspection.trace()

    one = trace(lambda x: x * 2)
    assert one.difference(trace(lambda x: x * 2)) is None
    assert one.difference(trace(lambda x: x * 3)) == "operation 2, aten.mul.Tensor, got other 2 and then 3"
    assert one.difference(trace(lambda x: x * 2 + 1)) == "one step ran 2 operations, the next 3"


def test_a_look_at_an_unchanged_module_is_remembered() -> None:
    memo, module = ContentsMemo(), Denoiser()
    first = memo.of("a", module)
    assert memo.of("a", module) is first
    module.shift = module.shift.clone()
    assert memo.of("a", module) is not first


def test_parts_that_stand_in_two_places_are_named_twice() -> None:
    layer = nn.Linear(2, 2, bias=False)
    assert sorted(named_tensors(nn.Sequential(layer, layer))) == ["0.weight", "1.weight"]


def test_reasons_are_bounded() -> None:
    tally = Tally()
    for number in range(1000):
        tally.broke(Break(kind="blocked", detail=str(number)))
        tally.evicted(str(number))
    counters = tally.snapshot()
    assert len(counters.eager_breaks) == REASONS_KEPT + 1
    assert sum(counters.eager_breaks.values()) == sum(counters.evictions.values()) == 1000


def test_counts_are_read_while_they_grow() -> None:
    tally = Tally()

    def count() -> None:
        for number in range(2000):
            tally.broke(Break(kind="blocked", detail=str(number % 50)))

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        tally.snapshot()
    assert sum(tally.snapshot().eager_breaks.values()) == 4000


def pair(eager_s: float, replay_s: float) -> Pair:
    return Pair(eager_s=eager_s, replay_s=replay_s)


def test_measuring_is_bounded_by_time_and_number() -> None:
    runs: list[str] = []

    def measure(seconds: float, first: Pair) -> int:
        runs.clear()
        made = measured(lambda: runs.append("e"), lambda: runs.append("r"), seconds=seconds, first=first)
        return len(made.pairs) if runs else 0

    assert measure(10.0, pair(0.001, 0.001)) == MOST_PAIRS
    assert runs[:4] == ["e", "r", "r", "e"]
    assert measure(0.25, pair(0.1, 0.1)) == LEAST_PAIRS
    assert measure(0.25, pair(10.0, 10.0)) == 0


def test_a_slow_step_is_judged_by_its_first_pair_and_a_look_counts() -> None:
    nothing = lambda: None  # noqa: E731
    assert measured(nothing, nothing, seconds=0.25, first=pair(10, 5)).speedup == 2
    looked = measured(nothing, nothing, seconds=1.0, first=pair(1e-6, 1e-6), look_s=100.0)
    assert looked.speedup < 1e-3


def test_a_measurement_that_wavers_is_not_steady() -> None:
    assert Measurement(pairs=(pair(2, 1), pair(2, 1), pair(2, 1), pair(1, 2))).is_steady
    assert not Measurement(pairs=(pair(2, 1), pair(2, 1), pair(1, 2))).is_steady
    assert str(Measurement(pairs=(pair(2, 1), pair(2, 1), pair(1, 2)))).endswith(
        "3 pairs, slower in 1 of them"
    )
    assert str(Measurement(pairs=(pair(2, 1),))).endswith("1 pairs")

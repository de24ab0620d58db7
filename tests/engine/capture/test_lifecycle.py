"""From the first step to an armed graph: what is counted, what is kept, what is let go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode

from restrike.engine.capture import captured, making
from restrike.engine.capture.limits import CaptureLimits
from restrike.engine.capture.timing import Measurement, Pair

from .lab import ALWAYS, SCOPE, Lab, euler

FIRST = ["warming", "proving", "proving"]


def test_a_step_is_captured_once_and_replayed_ever_after(lab: Lab) -> None:
    assert lab.told(count=12) == [*FIRST, *["replay"] * 9]
    counters = lab.capturer.counters
    assert (counters.captures, counters.replays, counters.graphs) == (1, 9, 1)
    assert counters.eager_breaks == {"warming": 1, "proving": 2}
    assert counters.bytes > 0
    assert counters.evictions == {}


@pytest.mark.parametrize("change", [{"tokens": 5}, {"batch": 2}, {"structure": ("other",)}])
def test_another_shape_batch_or_structure_has_its_own_graph(lab: Lab, change: dict[str, Any]) -> None:
    lab.arm()
    assert lab.told(count=4, **change) == [*FIRST, "replay"]
    assert lab.told() == ["replay"]
    assert lab.capturer.counters.captures == 2


def test_another_dtype_has_its_own_graph_and_is_never_broadcast_or_cast(lab: Lab) -> None:
    lab.arm()
    plan = lab.plan()
    double = {name: each.double() for name, each in plan.inputs.items()}
    with torch.inference_mode():
        module = lab.module.double()
    assert str(lab.run(replace(plan, inputs=double), module)) == "warming"


def test_experts_have_their_own_graphs(lab: Lab) -> None:
    lab.arm()
    assert lab.told(count=4, component="other") == [*FIRST, "replay"]
    assert lab.capturer.counters.graphs == 2


def test_outputs_may_be_kept_while_others_are_made(lab: Lab) -> None:
    lab.arm()
    with torch.inference_mode():
        plan = lab.plan()
        kept = lab.capturer.run(SCOPE, plan, lab.module, lab.eager(plan)).outputs
        before = {name: each.clone() for name, each in kept.items()}
        assert lab.told(count=3) == ["replay"] * 3
        assert all(torch.equal(kept[name], before[name]) for name in before)


def test_inputs_are_copied_to_addresses_that_never_change(lab: Lab) -> None:
    lab.arm()
    (entry,) = lab.capturer._entries.values()
    assert entry.captured is not None
    first = entry.captured.addresses
    plan = lab.plan()
    assert lab.run(plan) is None
    assert entry.captured.addresses == first
    assert not set(first.values()) & {each.data_ptr() for each in plan.inputs.values()}


def test_a_graph_that_is_not_faster_is_disarmed_and_freed(lab: Lab) -> None:
    lab.capturer._limits = CaptureLimits(min_speedup=1e9)
    told = lab.told(count=5)
    assert told[:2] == FIRST[:2]
    assert all(reason.startswith("disarmed: not faster (replay ") for reason in told[2:])
    counters = lab.capturer.counters
    assert (counters.captures, counters.replays, counters.graphs, counters.bytes) == (1, 0, 0, 0)


def test_the_median_of_pairs_decides() -> None:
    pairs = tuple(Pair(eager_s=eager_s, replay_s=1.0) for eager_s in (0.5, 1.5, 9.0))
    assert Measurement(pairs=pairs).speedup == 1.5


def test_a_failure_while_capturing_frees_everything_and_is_the_reason(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no graph\ntoday")

    monkeypatch.setattr(type(lab.backend), "capture", fail)
    assert lab.told(count=3) == ["warming", *["blocked: RuntimeError: no graph today"] * 2]
    counters = lab.capturer.counters
    assert (counters.captures, counters.graphs, counters.bytes) == (0, 0, 0)


def test_a_failure_while_proving_frees_the_graph(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[object] = []
    free = captured.CapturedStep.free

    def fail(*_: object) -> None:
        raise RuntimeError("no proof")

    monkeypatch.setattr(making, "perturbed", fail)
    monkeypatch.setattr(captured.CapturedStep, "free", lambda self: (freed.append(self), free(self)))
    assert lab.told(count=2) == ["warming", "blocked: RuntimeError: no proof"]
    assert len(freed) == 1
    assert lab.capturer.counters.bytes == 0


def test_a_replay_that_fails_is_the_last_and_the_step_runs_eagerly(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.arm()
    (entry,) = lab.capturer._entries.values()

    def fail(inputs: object) -> None:
        raise RuntimeError("lost")

    monkeypatch.setattr(entry.captured, "run", fail)
    assert lab.told(count=2) == ["blocked: a replay failed: RuntimeError: lost"] * 2
    assert lab.capturer.counters.graphs == 0


def test_an_error_of_the_step_itself_is_raised_and_leaves_no_entry(lab: Lab) -> None:
    def failing(*_: object) -> Any:
        raise ValueError("the step's own")

    with pytest.raises(ValueError, match="the step's own"):
        lab.told(failing)
    assert not lab.capturer._entries
    lab.arm()


def test_an_interrupt_while_capturing_leaves_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    lab.told()
    with monkeypatch.context() as patched:
        patched.setattr(making, "perturbed", interrupt)
        with pytest.raises(KeyboardInterrupt):
            lab.told()
    assert (lab.capturer.counters.graphs, lab.capturer.counters.bytes) == (0, 0)
    lab.arm()


def test_of_more_shapes_than_graphs_the_longest_unused_one_goes(lab: Lab) -> None:
    lab.capturer._limits = replace(ALWAYS, max_graphs=2)
    for tokens in (2, 3):
        lab.arm(tokens=tokens)
    assert lab.told(tokens=2) == ["replay"]
    lab.arm(tokens=4)
    assert lab.capturer.counters.graphs == 2
    assert lab.capturer.counters.evictions == {"over budget": 1}
    assert lab.told(tokens=2) == ["replay"]
    assert lab.told(tokens=3) == ["warming"]


def test_bytes_are_bounded_and_room_is_made_before_a_capture(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.arm(tokens=16)
    one = lab.capturer.counters.bytes
    lab.capturer._limits = replace(ALWAYS, max_bytes=one * 3 // 2)
    held: list[int] = []
    capture = type(lab.backend).capture

    def looked(self: Any, *given: Any) -> Any:
        held.append(lab.capturer.counters.graphs)
        return capture(self, *given)

    monkeypatch.setattr(type(lab.backend), "capture", looked)
    lab.arm(tokens=17)
    assert held == [0]
    assert lab.capturer.counters.evictions == {"over budget": 1}
    assert lab.capturer.counters.bytes <= one * 3 // 2


def test_what_can_never_fit_is_not_captured(lab: Lab) -> None:
    lab.capturer._limits = replace(ALWAYS, max_bytes=100)
    told = lab.told(count=3)
    assert told[0] == "warming"
    assert told[1].startswith("over budget: a graph of ")
    assert told[1].endswith(" bytes, where 100 are allowed")
    assert told[2] == told[1]
    assert lab.capturer.counters.captures == 0


class Neighbours:
    """A share of memory that others use too."""

    def __init__(self) -> None:
        self.free_bytes = self.taken_bytes = 0

    def refusal(self, more_bytes: int) -> str | None:
        return None if more_bytes <= self.free_bytes else f"{more_bytes} bytes too many"

    def take(self, size_bytes: int) -> None:
        self.free_bytes += self.taken_bytes - size_bytes
        self.taken_bytes = size_bytes


def test_what_does_not_fit_beside_others_is_captured_when_they_are_gone(lab: Lab) -> None:
    lab.arm()
    one = lab.capturer.counters.bytes
    memory = lab.capturer._share = Neighbours()  # pyright: ignore[reportAttributeAccessIssue]
    memory.free_bytes = memory.taken_bytes = one
    memory.free_bytes = 0
    told = lab.told(count=2, tokens=64)
    assert told[1].startswith("over budget: a graph of ")
    assert lab.told() == ["replay"]
    assert lab.capturer.counters.evictions == {}
    memory.free_bytes = 100 * one
    lab.arm(tokens=64)
    assert memory.taken_bytes == lab.capturer.counters.bytes > one


def test_what_would_take_too_long_is_not_captured(lab: Lab) -> None:
    lab.capturer._limits = replace(ALWAYS, max_capture_s=1e-9)
    assert lab.told(count=2)[1].startswith("over budget: capturing would take about ")


def test_remembered_signatures_are_bounded(lab: Lab) -> None:
    lab.capturer._limits = replace(ALWAYS, max_graphs=1)
    for number in range(20):
        lab.told(structure=("lab", number))
    assert len(lab.capturer._entries) == lab.capturer._limits.max_signatures == 8


@pytest.mark.parametrize("armed", [False, True])
def test_what_is_not_capturable_runs_eagerly_whatever_is_armed(lab: Lab, armed: bool) -> None:
    if armed:
        lab.arm()
    assert lab.told(capturable=False) == ["not capturable: the step says so"]


def test_a_profiler_sees_every_operation(lab: Lab) -> None:
    lab.arm()
    with profile() as seen:
        assert lab.told() == ["profiling"]
    assert any("layer_norm" in event.key for event in seen.key_averages())
    assert lab.told() == ["replay"]


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_a_mode_that_watches_sees_every_operation_and_delays_no_first_look(lab: Lab) -> None:
    with Watching():
        assert lab.told(count=2) == ["warming", "profiling: Watching"]
    assert lab.told(count=3) == ["proving", "proving", "replay"]
    with Watching():
        assert lab.told() == ["profiling: Watching"]


def test_gradients_are_not_lost_to_a_replay(lab: Lab) -> None:
    lab.arm()
    plan = lab.plan()
    lab.module.requires_grad_(True)
    stepped = lab.capturer.run(SCOPE, plan, lab.module, lab.eager(plan))
    assert str(stepped.broke) == "gradients are on"
    assert stepped.outputs["latent"].requires_grad


def test_an_input_elsewhere_is_named(lab: Lab) -> None:
    plan = lab.plan()
    with torch.inference_mode():
        elsewhere = replace(plan, inputs={**plan.inputs, "note": torch.ones(1, device="meta")})
        stepped = lab.capturer.run(SCOPE, elsewhere, lab.module, lab.eager(plan))
    assert str(stepped.broke) == f"not capturable: input 'note' is on meta, not {lab.backend.device}"


def test_a_denoiser_that_is_no_module_is_not_captured(lab: Lab) -> None:
    plan = lab.plan(lambda forward, inputs: {"latent": inputs["latent"]})
    with torch.inference_mode():
        stepped = lab.capturer.run(SCOPE, plan, object(), lab.eager(plan))
    assert str(stepped.broke) == "not capturable: component 'denoiser' is no torch module"


def test_each_signature_is_explained_in_a_line(lab: Lab) -> None:
    lab.arm()
    lab.told(tokens=5)
    armed, warming = lab.capturer.explain()
    assert armed.startswith(f"capture {lab.backend.name}, denoiser [lab] 1x4x8: armed, replay ")
    assert armed.endswith(" bytes, 1 replays")
    assert warming == f"capture {lab.backend.name}, denoiser [lab] 1x5x8: warming"


def test_an_input_that_repeats_itself_is_kept_once(lab: Lab) -> None:
    def broadcast(forward: Any, inputs: Any) -> Any:
        return {**euler(forward, inputs), "sum": inputs["wide"] + inputs["latent"]}

    def told() -> str | None:
        plan = lab.plan(broadcast)
        wide = torch.rand(1, 1, 8, device=lab.backend.device).expand(1, 4, 8)
        broke = lab.run(replace(plan, inputs={**plan.inputs, "wide": wide}))
        return str(broke) if broke else None

    assert [told() for _ in range(5)] == [*FIRST, None, None]


def test_a_slice_of_a_larger_tensor_is_an_input_like_another(lab: Lab) -> None:
    def told() -> str | None:
        plan = lab.plan()
        half = torch.rand(1, 4, 16, device=lab.backend.device)[..., ::2]
        broke = lab.run(replace(plan, inputs={**plan.inputs, "latent": half}))
        return str(broke) if broke else None

    assert [told() for _ in range(4)] == [*FIRST, None]

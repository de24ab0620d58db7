"""Steps that no graph may answer for: each is planted, found and named; without it the step is armed."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from restrike.engine.capture import captured
from restrike.engine.capture.buffers import copies
from restrike.engine.capture.entry import REMEDY
from restrike.engine.capture.trace import Inspection
from restrike.loops.contract import Forward, Tensors

from .lab import SCOPE, WIDTH, Denoiser, Lab, call, euler


def blocked(lab: Lab, compute: Any = euler, count: int = 5, **changes: Any) -> str:
    """Why the step is blocked; every output equals eager's until then and ever after."""
    told = lab.told(compute, count, **changes)
    assert told[-1].startswith("blocked: "), told
    assert "replay" not in told
    assert lab.capturer.counters.graphs == 0
    return told[-1].removeprefix("blocked: ")


def test_the_same_step_without_a_fault_is_armed(lab: Lab) -> None:
    lab.arm()


def scaled(scale: float, forward: Forward, inputs: Tensors) -> Tensors:
    return {"latent": inputs["latent"] + scale * forward("cond", inputs)}


def in_a_closure(scale: float) -> Any:
    return lambda forward, inputs: {"latent": inputs["latent"] + scale * forward("cond", inputs)}


@dataclass(frozen=True)
class InAField:
    scale: float

    def __call__(self, forward: Forward, inputs: Tensors) -> Tensors:
        return scaled(self.scale, forward, inputs)


class OnAnObject:
    def __init__(self, scale: float) -> None:
        self.settings = {"scale": [scale]}

    def compute(self, forward: Forward, inputs: Tensors) -> Tensors:
        return scaled(self.settings["scale"][0], forward, inputs)


HIDDEN = {
    " closure scale": in_a_closure,
    ".args[0]": lambda scale: partial(scaled, scale),
    ".scale": InAField,
    ".self.settings['scale'][0]": lambda scale: OnAnObject(scale).compute,
}


@pytest.mark.parametrize("path", HIDDEN)
def test_a_constant_that_differs_between_steps_is_named(lab: Lab, path: str) -> None:
    make = HIDDEN[path]
    assert lab.told(make(0.5)) == ["warming"]
    why = lab.told(make(0.25))[0]
    assert why == f"blocked: compute{path} was 0.5 and is now 0.25; {REMEDY}"
    assert blocked(lab, make(0.125)).startswith(f"compute{path} was 0.5")


@pytest.mark.parametrize("path", HIDDEN)
def test_a_constant_that_differs_only_between_requests_is_found_when_it_does(lab: Lab, path: str) -> None:
    lab.arm(HIDDEN[path](0.5))
    assert lab.told(HIDDEN[path](0.5)) == ["replay"]
    assert lab.told(HIDDEN[path](0.25)) == [f"blocked: compute{path} was 0.5 and is now 0.25; {REMEDY}"]
    assert lab.capturer.counters.evictions == {"blocked": 1}


def test_an_equal_constant_is_part_of_the_step(lab: Lab) -> None:
    for _ in range(3):
        lab.told(in_a_closure(0.5))
    assert lab.told(in_a_closure(0.5)) == ["replay"]


GLOBAL = 0.5


def with_a_global(forward: Forward, inputs: Tensors) -> Tensors:
    return {"latent": inputs["latent"] + GLOBAL * forward("cond", inputs)}


def test_a_global_number_is_watched(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.arm(with_a_global)
    monkeypatch.setitem(globals(), "GLOBAL", 0.25)
    assert "compute global GLOBAL was 0.5 and is now 0.25" in blocked(lab, with_a_global, 1)


def test_numbers_are_told_apart_by_kind(lab: Lab) -> None:
    lab.arm(in_a_closure(1))
    assert "compute closure scale was 1 and is now 1.0" in blocked(lab, in_a_closure(1.0), 1)


def test_what_cannot_be_looked_through_is_refused(lab: Lab) -> None:
    heap = [[number] for number in range(1000)]

    def compute(forward: Forward, inputs: Tensors) -> Tensors:
        return {"latent": inputs["latent"] * len(heap)}

    assert blocked(lab, compute, 1).startswith("too much hangs on the step to be watched, at compute closure")


def test_an_outside_tensor_is_named_by_the_operation_that_reads_it(lab: Lab) -> None:
    outside = torch.ones(WIDTH, device=lab.backend.device)
    why = blocked(lab, lambda forward, inputs: {"latent": inputs["latent"] + outside}, 2)
    assert why == (
        "aten.add.Tensor reads as other a tensor (8, float32) that is neither an input, nor a parameter or "
        "buffer, nor made inside the step"
    )


class Keeping(Denoiser):
    """Keeps what it made for the next step, beside its parameters and buffers."""

    def forward(self, latent_BND: Tensor, timestep_B: Tensor) -> Tensor:
        velocity = super().forward(latent_BND, timestep_B)
        last = self.__dict__.get("last", velocity)
        self.__dict__["last"] = velocity
        return (velocity + last) / 2


def test_a_tensor_that_is_kept_from_the_step_before_is_found(lab: Lab) -> None:
    lab.module = Keeping().to(lab.backend.device).requires_grad_(False)
    # The first step gives the module an attribute, which makes it another one.
    assert "neither an input, nor a parameter or buffer" in lab.unpaired(count=3)


class Counting(Denoiser):
    """Scales by how often it was called."""

    def forward(self, latent_BND: Tensor, timestep_B: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(latent_BND, timestep_B) * (1 + self.calls // self.every)

    every = 1


def test_a_counter_on_the_module_is_named(lab: Lab) -> None:
    lab.module = Counting().to(lab.backend.device).requires_grad_(False)
    assert lab.unpaired() == f"blocked: denoiser.calls was 0 and is now 1; {REMEDY}"


def test_a_counter_that_acts_only_later_is_named_as_well(lab: Lab) -> None:
    lab.module = Counting().to(lab.backend.device).requires_grad_(False)
    lab.module.__dict__["every"] = 1000
    assert lab.unpaired() == f"blocked: denoiser.calls was 0 and is now 1; {REMEDY}"


@dataclass
class Counter:
    """A counter where neither the plan nor the module shows it."""

    steps: int = 0


COUNTED = [Counter()]


def test_a_counter_that_nothing_shows_is_found_by_what_it_does(lab: Lab) -> None:
    def compute(forward: Forward, inputs: Tensors) -> Tensors:
        COUNTED[0].steps += 1
        return {"latent": inputs["latent"] * COUNTED[0].steps}

    assert "operation 1, aten.mul.Tensor, got other 3 and then 6" in lab.unpaired(compute)


def test_a_write_to_an_input_is_named(lab: Lab) -> None:
    def compute(forward: Forward, inputs: Tensors) -> Tensors:
        return {"latent": inputs["latent"].mul_(2)}

    assert lab.unpaired(compute) == "blocked: aten.mul_.Tensor writes into input 'latent'"


class Accumulating(Denoiser):
    def forward(self, latent_BND: Tensor, timestep_B: Tensor) -> Tensor:
        self.shift += 1
        return super().forward(latent_BND, timestep_B)


def test_a_write_to_a_buffer_is_named(lab: Lab) -> None:
    lab.module = Accumulating().to(lab.backend.device).requires_grad_(False)
    assert lab.unpaired() == "blocked: aten.add_.Tensor writes into 'denoiser.shift'"


def test_a_write_in_place_to_what_the_step_made_itself_is_no_fault(lab: Lab) -> None:
    def compute(forward: Forward, inputs: Tensors) -> Tensors:
        made = inputs["latent"] * 2
        made[:, 0] = 0
        return {"latent": made.add_(forward("cond", inputs))}

    lab.arm(compute)
    assert lab.told(compute, 3) == ["replay"] * 3


def drawing(forward: Forward, inputs: Tensors) -> Tensors:
    return {"latent": inputs["latent"] + torch.randn_like(inputs["latent"])}


def test_a_draw_inside_the_step_is_named(lab: Lab) -> None:
    assert lab.unpaired(drawing) == "blocked: aten.randn_like.default draws random numbers inside the step"


def test_a_draw_from_a_generator_of_its_own_is_named(lab: Lab) -> None:
    generator = torch.Generator(lab.backend.device).manual_seed(1)

    def compute(forward: Forward, inputs: Tensors) -> Tensors:
        like = inputs["latent"]
        return {"latent": like + torch.randn(like.shape, generator=generator, device=like.device)}

    assert "draws random numbers inside the step" in lab.unpaired(compute)


def test_attention_and_dropout_that_draw_nothing_are_no_fault(lab: Lab) -> None:
    def compute(forward: Forward, inputs: Tensors) -> Tensors:
        return {"latent": nn.functional.dropout(forward("cond", inputs), 0.5, training=False)}

    lab.arm(compute)


HOST_READS = {
    "aten.item.default": lambda latent: latent * latent.sum().item(),
    "aten.is_nonzero.default": lambda latent: latent * 2 if latent.sum() > -1e9 else latent,
    "aten.equal.default": lambda latent: latent * (2 if torch.equal(latent, latent) else 3),
    "aten.resolve_neg.default": lambda latent: latent * latent.sum().tolist(),
}


@pytest.mark.parametrize("name", HOST_READS)
def test_a_read_on_the_host_is_named(lab: Lab, name: str) -> None:
    read = HOST_READS[name]
    why = blocked(lab, lambda forward, inputs: {"latent": read(inputs["latent"])}, 2)
    assert why == f"{name} reads a tensor on the host"


DYNAMIC = {
    "aten.nonzero.default": lambda latent: latent.sum() + latent.nonzero().shape[0],
    "aten.masked_select.default": lambda latent: latent + latent.masked_select(latent > 0).sum(),
    "aten.index.Tensor": lambda latent: latent + latent[latent > 0].sum(),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_a_size_that_depends_on_data_is_named(lab: Lab, name: str) -> None:
    read = DYNAMIC[name]
    why = blocked(lab, lambda forward, inputs: {"latent": read(inputs["latent"])}, 2)
    assert why == f"{name} gives a result whose size depends on data"


def test_an_index_by_positions_is_no_fault(lab: Lab) -> None:
    def compute(forward: Forward, inputs: Tensors) -> Tensors:
        places = torch.arange(3, device=inputs["latent"].device)
        return {"latent": forward("cond", inputs)[:, places]}

    lab.arm(compute)


def test_a_tensor_made_of_host_values_is_named(lab: Lab) -> None:
    def compute(forward: Forward, inputs: Tensors) -> Tensors:
        numbers = torch.tensor([0.5] * 100, device=inputs["latent"].device)
        return {"latent": inputs["latent"] * numbers.sum()}

    assert blocked(lab, compute, 2) == "a tensor is made from host values inside the step"


class Hidden:
    """A number where neither the plan nor the module shows it."""

    value = 0.0


def with_a_literal(forward: Forward, inputs: Tensors) -> Tensors:
    made = inputs["latent"] * 2
    made[:, 0] = Hidden.value
    return {"latent": made}


def test_a_literal_is_part_of_the_step(lab: Lab) -> None:
    lab.arm(with_a_literal)


def test_a_literal_that_differs_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.told(with_a_literal, 2)
    monkeypatch.setattr(Hidden, "value", 1.0)
    why = blocked(lab, with_a_literal, 1)
    assert (
        "aten.lift_fresh.default, got self ('torch.float32', '0.0') and then ('torch.float32', '1.0')" in why
    )


@pytest.fixture
def collective() -> Iterator[Any]:
    """An operation in the namespace of torch's collectives."""
    library = torch.library.Library("_c10d_functional", "FRAGMENT")
    library.define("restrike_sum(Tensor input) -> Tensor")
    library.impl("restrike_sum", lambda tensor: tensor * 2, "CompositeExplicitAutograd")
    yield torch.ops._c10d_functional.restrike_sum
    library._destroy()


def test_a_collective_is_named(lab: Lab, collective: Any) -> None:
    why = blocked(lab, lambda forward, inputs: {"latent": collective(inputs["latent"])}, 2)
    assert why == "_c10d_functional.restrike_sum.default is a collective"


def test_a_step_that_runs_other_operations_each_time_is_found(lab: Lab) -> None:
    turns = iter(range(100))

    def compute(forward: Forward, inputs: Tensors) -> Tensors:
        latent = inputs["latent"]
        return {"latent": latent + 1 if next(turns) % 2 else latent - 1}

    assert "was aten.sub.Tensor and is now aten.add.Tensor: the step branches on the host" in lab.unpaired(
        compute
    )


def in_memory(tensor: Tensor) -> Any:
    """The floats where a tensor lies, in a way that torch does not see being used."""
    return np.ctypeslib.as_array((ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr()))


def unseen(latent: Tensor) -> Tensor:
    """Twice the latent."""
    result = torch.empty_like(latent)
    in_memory(result)[:] = 2 * in_memory(latent)
    return result


@pytest.mark.parametrize("lab", ["tape"], indirect=True)
def test_work_that_torch_does_not_see_is_found_by_other_inputs(lab: Lab) -> None:
    why = blocked(lab, lambda forward, inputs: {"latent": unseen(inputs["latent"])}, 2)
    assert why.startswith(
        "a replay does not follow the step to other inputs: output 'latent' differs by up to "
    )
    assert why.endswith(" (when only 'latent' changes)")


@pytest.mark.parametrize("lab", ["tape"], indirect=True)
def test_a_write_that_torch_does_not_see_is_found(lab: Lab) -> None:
    def compute(forward: Forward, inputs: Tensors) -> Tensors:
        in_memory(inputs["latent"])[:] += 1
        return {"latent": inputs["latent"] + 1}

    assert "the step writes into its inputs: input 'latent' differs" in lab.unpaired(compute)


def test_an_output_in_the_graphs_own_memory_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "copies", dict)
    why = blocked(lab, count=2)
    assert why == "output 'latent' would be handed out in the memory of graph output 'latent'"


def test_an_output_that_is_an_input_or_a_weight_is_handed_out_as_a_copy(lab: Lab) -> None:
    def compute(forward: Forward, inputs: Tensors) -> Tensors:
        return {"latent": forward("cond", inputs), "kept": inputs["latent"][:, 1:], "dt": inputs["dt"]}

    lab.arm(compute)
    plan = lab.plan(compute)
    with torch.inference_mode():
        outputs = lab.capturer.run(SCOPE, plan, lab.module, lab.eager(plan)).outputs
    given = {each.untyped_storage().data_ptr() for each in plan.inputs.values()}
    assert not given & {each.untyped_storage().data_ptr() for each in outputs.values()}


def test_copies_share_nothing() -> None:
    one = {"a": torch.ones(3), "b": torch.ones(2, 2).t()}
    two = copies(one)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not {t.data_ptr() for t in one.values()} & {t.data_ptr() for t in two.values()}
    assert two["b"].stride() == one["b"].stride()


def test_a_step_that_cannot_be_watched_runs_all_the_same(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise NotImplementedError("no rule")

    monkeypatch.setattr(Inspection, "__torch_dispatch__", fail)
    assert lab.told(count=2) == ["warming", "blocked: it cannot be watched: NotImplementedError: no rule"]


def test_blocking_one_signature_blocks_no_other(lab: Lab) -> None:
    assert lab.unpaired(drawing).startswith("blocked: ")
    lab.arm(structure=("another",))


def test_calls_of_another_module_are_found(lab: Lab) -> None:
    other = Denoiser(seed=9).to(lab.backend.device).requires_grad_(False)

    def elsewhere(module: Any, inputs: Tensors) -> Tensor:
        return call(other, inputs)

    why = blocked(lab, count=2, call=elsewhere)
    assert "neither an input, nor a parameter or buffer" in why


def test_the_plan_that_reads_its_numbers_as_inputs_is_the_remedy(lab: Lab) -> None:
    def compute(forward: Forward, inputs: Tensors) -> Tensors:
        return {"latent": inputs["latent"] + inputs["scale"] * forward("cond", inputs)}

    def told(scale: float) -> str:
        plan = lab.plan(compute)
        number = torch.tensor(scale, device=lab.backend.device)
        return str(lab.run(replace(plan, inputs={**plan.inputs, "scale": number})))

    assert [told(scale) for scale in (0.5, 0.25, 0.125, 0.75)] == ["warming", "proving", "proving", "None"]

"""What a compiled call is bound to: one set of weights at a time, and a module of the form it had."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from restrike.engine.compiled.call import Run
from restrike.engine.compiled.request import RequestCompiled, forward_for, marked
from restrike.engine.compiled.table import CompiledCalls
from restrike.engine.reasons import REASONS_KEPT
from restrike.loops.contract import Tensors

from .toys import SIZE, Code, Toy, call_of, plan_of, table_with


@pytest.fixture(autouse=True)
def _as_the_engine_does() -> Iterator[None]:
    with torch.inference_mode():
        yield


def told_of(table: CompiledCalls, module: nn.Module) -> dict[str, int]:
    """The reasons for which the forward of one request ran eagerly."""
    plan, request = plan_of(), RequestCompiled(table=table)
    forward_for((request,), plan, module, plan.inputs)
    return dict(request.report().eager)


class Held:
    """Stands for the weights that bound code holds."""


@dataclass
class Watches(Code):
    """Code that looks, whenever it is bound, whether what it was bound to before is still held."""

    before: Callable[[], Held | None] = lambda: None
    still_held: list[bool] = field(default_factory=list)

    def bind(self, module: nn.Module) -> Run:
        self.still_held.append(self.before() is not None)
        run, held = super().bind(module), Held()
        self.before = weakref.ref(held)

        def holding(inputs: Tensors, held: Held = held) -> torch.Tensor:
            return run(inputs)

        return holding


def test_old_weights_are_let_go_of_before_others_are_bound_for_two_sets_may_not_fit() -> None:
    module, code = Toy(), Watches()
    table = table_with(module, call_of(code))
    module.layer.weight = nn.Parameter(torch.ones(SIZE, SIZE), requires_grad=False)
    assert told_of(table, module) == {}
    assert code.still_held == [False, False]
    # The control: it is held as long as it answers.
    assert code.before() is not None


def test_a_release_is_of_its_own_component_alone() -> None:
    module, code, other = Toy(), Code(), Code()
    table = table_with(module, call_of(code), call_of(other, component="second"))
    table.release("second")
    assert told_of(table, module) == {}
    assert (code.bindings, other.bindings) == (1, 1)
    table.release("toy")
    assert told_of(table, module) == {}
    assert (code.bindings, other.bindings) == (2, 1)


def pre_hooked(module: Toy) -> None:
    module.layer.register_forward_pre_hook(lambda part, given: (given[0] + 1,))


def hooked(module: Toy) -> None:
    def more(part: Any, given: Any, answer: Any) -> Any:
        return answer + 1

    module.layer.register_forward_hook(more)


def replaced(module: Toy) -> None:
    own: Any = module.layer.forward
    module.layer.forward = lambda given: own(given) + 1  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("change", [pre_hooked, hooked, replaced])
def test_no_code_that_runs_around_a_part_is_passed_over(change: Callable[[Toy], None]) -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code))
    change(module)
    (reason,) = told_of(table, module)
    assert "code of its own runs around 'layer'" in reason
    assert not code.given


class OtherLinear(nn.Linear):
    """Another kind of layer, with the same weights under the same names."""


def of_another_kind(module: Toy) -> None:
    module.layer = OtherLinear(SIZE, SIZE)


def in_another_mode(module: Toy) -> None:
    module.layer.eval()


@pytest.mark.parametrize("change", [of_another_kind, in_another_mode])
def test_a_part_of_another_kind_or_mode_is_not_answered_for(change: Callable[[Toy], None]) -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code))
    change(module)
    (reason,) = told_of(table, module)
    assert "other parts or modes" in reason
    assert not code.given


def test_a_step_is_marked_with_the_cells_that_can_still_answer_it_and_no_others() -> None:
    module, plan = Toy(), plan_of()
    table = table_with(module, call_of(Code()), call_of(Code(), key="other", component="second"))
    request = RequestCompiled(table=table)
    assert marked((request,), plan).structure == (*plan.structure, "cells", "k")
    table.disarm("toy", "an order")
    assert marked((request,), plan).structure == plan.structure


def test_what_a_graph_holds_is_what_answered_a_step_of_its_own_size() -> None:
    module, call = Toy(), call_of(Code())
    table = table_with(module, call)
    small, large = plan_of(), plan_of(torch.ones(2, SIZE))
    table.remember(small, [call.id])
    assert table.remembered(small) == (call.id,)
    assert table.remembered(large) == ()


def test_fewer_rows_than_were_compiled_for_are_not_answered_for() -> None:
    module, code = Toy(), Code()
    assert told_of(table_with(module, call_of(code, batch=(2, 3))), module) == {
        "axis 0 of 'latent' is 1, compiled for 2 to 3": 1
    }
    assert not code.given


def test_an_order_against_one_component_leaves_the_others_armed() -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code), call_of(Code(), key="other", component="second"))
    table.disarm("second", "an order")
    assert told_of(table, module) == {}
    assert [call.component for call in table.armed] == ["toy"]


def test_no_more_reasons_are_told_than_are_counted_by_name() -> None:
    table = CompiledCalls(card="toy", mode="auto")
    told = [table.tell_once(f"axis 0 is {size}") for size in range(REASONS_KEPT + 1)]
    assert told == [True] * REASONS_KEPT + [False]
    assert not table.tell_once("axis 0 is 0")


class Watching(TorchDispatchMode):
    """Notes the operations that run within."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_what_is_bound_is_one_operation_to_whoever_watches() -> None:
    module, call = Toy(), call_of(Code())
    table, inputs = table_with(module, call), dict(plan_of().inputs)
    with Watching() as watched:
        table.bind(call, module).run(inputs)
    assert watched.seen[-1:] == ["restrike.compiled_call.default"]
    assert not [name for name in watched.seen if "mm" in name or "matmul" in name]

"""Which call answers a forward, when none does, and what becomes of calls whose module or code changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from restrike.engine.compiled.call import Run, identity_of
from restrike.engine.compiled.request import RequestCompiled, forward_for
from restrike.engine.compiled.table import AmbiguousCells, CompiledCalls
from restrike.errors import Refused, Shortfall
from restrike.loops.contract import StepPlan

from .toys import SIZE, Code, Toy, ToyModel, call_of, plan_of, table_with


@pytest.fixture(autouse=True)
def _as_the_engine_does() -> Iterator[None]:
    with torch.inference_mode():
        yield


def asked(table: CompiledCalls, module: nn.Module, plan: StepPlan) -> tuple[Tensor, RequestCompiled]:
    """One forward of a request that begins now."""
    request = RequestCompiled(table=table)
    return forward_for((request,), plan, module, plan.inputs), request


def test_exactly_one_call_that_was_compiled_for_a_forward_answers_it() -> None:
    module, one, two = Toy(), Code(), Code()
    table = table_with(module, call_of(one, key="one"), call_of(two, batch=(2, 3), key="two"))
    answer, request = asked(table, module, plan_of(torch.ones(3, SIZE)))
    assert torch.allclose(answer, module(torch.ones(3, SIZE), torch.ones(3)))
    assert (len(one.given), len(two.given)) == (0, 1)
    assert request.report().cells == {"two": 1}
    assert table.counters.executed == 1


def test_a_forward_that_none_was_compiled_for_is_eager_and_its_first_gap_is_named_and_counted() -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code, batch=(2, 3)))
    answer, request = asked(table, module, plan_of(torch.ones(5, SIZE)))
    assert torch.equal(answer, module(torch.ones(5, SIZE), torch.ones(5)))
    reason = "axis 0 of 'latent' is 5, compiled for 2 to 3"
    assert request.report().eager == table.counters.eager == {reason: 1}
    assert not code.given


def test_two_calls_for_one_forward_are_an_error_and_not_a_guess() -> None:
    module = Toy()
    table = table_with(module, call_of(Code(), key="a"), call_of(Code(), batch=(1, 2), key="b"))
    with pytest.raises(AmbiguousCells, match="toy a and toy b would both answer"):
        asked(table, module, plan_of())
    assert asked(table, module, plan_of(torch.ones(2, SIZE)))[1].report().cells == {"b": 1}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"latent": torch.ones(1, SIZE, 1)}, "'latent' has 3 axes, compiled for 2"),
        ({"latent": torch.ones(1, SIZE, dtype=torch.float64)}, "'latent' is float64, compiled for float32"),
        ({"timestep": torch.full((1,), 2**24 + 1)}, "'timestep' is int64, compiled for float32"),
        ({"mask": torch.ones(1)}, "tensors latent, mask, timestep, compiled for latent, timestep"),
    ],
)
def test_each_way_to_be_asked_otherwise_has_its_own_words(change: dict[str, Tensor], reason: str) -> None:
    module, code, plan = Toy(), Code(), plan_of()
    table = table_with(module, call_of(code))
    request = RequestCompiled(table=table)
    found = table.answer(request.calls, plan, module, {**plan.inputs, **change})
    assert found == reason
    assert not code.given


def test_a_number_of_another_kind_is_cast_where_its_value_stays() -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code))
    answer, request = asked(table, module, plan_of(timestep=torch.tensor([500])))
    assert request.report().cells == {"k": 1}
    assert code.given == [{"latent": torch.float32, "timestep": torch.float32}]
    assert torch.allclose(answer, module(torch.ones(1, SIZE), torch.tensor([500.0])))


def test_another_component_and_another_call_are_not_answered() -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code, component="other"))
    assert asked(table, module, plan_of())[1].report().eager == {"no cell is armed for 'toy'": 1}
    table = table_with(module, call_of(code))
    other = plan_of(call=ToyModel(side=8).denoise)
    assert asked(table, module, other)[1].report().eager == {
        "'toy' is called in another way than was compiled": 1
    }


def test_methods_of_equal_models_are_one_call() -> None:
    assert identity_of(ToyModel().denoise) == identity_of(ToyModel().denoise)
    assert identity_of(ToyModel().denoise) != identity_of(ToyModel(side=8).denoise)


def test_gradients_and_autocast_run_eagerly() -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code))
    with torch.inference_mode(False), torch.enable_grad():
        assert asked(table, module, plan_of())[1].report().eager == {"gradients are on": 1}
    with torch.autocast("cpu"):
        assert asked(table, module, plan_of())[1].report().eager == {"autocast is on": 1}
    assert not code.given


def test_code_that_fails_is_disarmed_for_good_and_the_request_goes_on() -> None:
    module, code, plan = Toy(), Code(error=RuntimeError("bad")), plan_of()
    table = table_with(module, call_of(code))
    request = RequestCompiled(table=table)
    for _ in range(2):
        assert torch.equal(forward_for((request,), plan, module, plan.inputs), module(*plan.inputs.values()))
    assert code.failures == ["it failed (RuntimeError: bad)"]
    assert request.report().eager == {
        "toy k was disarmed: it failed (RuntimeError: bad)": 1,
        "toy k was disarmed": 1,
    }
    assert table.counters.armed == 0
    assert table.explain() == ("cell toy k: it failed (RuntimeError: bad)",)


class BoundOnce(Code):
    """Code that cannot be bound to any weights but the first."""

    def bind(self, module: nn.Module) -> Run:
        if self.bindings:
            raise RuntimeError("odd weights")
        return super().bind(module)


def test_weights_that_it_cannot_be_bound_to_are_no_fault_of_the_code() -> None:
    module, code, plan = Toy(), BoundOnce(), plan_of()
    table = table_with(module, call_of(code))
    module.layer.weight = nn.Parameter(torch.ones(SIZE, SIZE))
    answer, request = asked(table, module, plan)
    assert torch.equal(answer, module(*plan.inputs.values()))
    assert request.report().eager == {"toy k was disarmed: RuntimeError: odd weights": 1}
    assert code.failures == []


def test_memory_that_runs_out_is_no_fault_of_the_code() -> None:
    module, code = Toy(), Code(error=MemoryError())
    table = table_with(module, call_of(code))
    with pytest.raises(Shortfall):
        asked(table, module, plan_of())
    assert table.counters.armed == 1


def test_weights_written_in_place_are_read_without_binding_again() -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code))
    module.layer.weight.zero_()
    module.layer.bias.fill_(3.0)
    assert torch.equal(asked(table, module, plan_of())[0], torch.full((1, SIZE), 4.0))
    assert code.bindings == 1


def test_weights_that_were_replaced_are_bound_before_the_next_answer() -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code))
    module.layer.weight = nn.Parameter(torch.zeros(SIZE, SIZE), requires_grad=False)
    module.layer.bias = nn.Parameter(torch.full((SIZE,), 3.0), requires_grad=False)
    answer, request = asked(table, module, plan_of())
    assert torch.equal(answer, torch.full((1, SIZE), 4.0))
    assert (code.bindings, request.report().executed) == (2, 1)


def test_a_module_that_was_loaded_anew_is_bound_again() -> None:
    module, again, code = Toy(), Toy(), Code()
    table = table_with(module, call_of(code))
    table.release("toy")
    answer, request = asked(table, again, plan_of())
    assert torch.allclose(answer, again(torch.ones(1, SIZE), torch.ones(1)))
    assert (code.bindings, request.report().executed) == (2, 1)


def test_after_a_release_nothing_holds_the_weights() -> None:
    import weakref

    module, code = Toy(), Code()
    table = table_with(module, call_of(code))
    kept = weakref.ref(module.layer)
    table.release("toy")
    del module
    assert kept() is None


def test_code_around_a_module_is_not_passed_over() -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code))
    module.layer.register_forward_hook(lambda *call: call[2] + 1)
    plan = plan_of()
    answer, request = asked(table, module, plan)
    assert torch.equal(answer, module(*plan.inputs.values()))
    (reason,) = request.report().eager
    assert reason == "toy k was disarmed: code of its own runs around 'layer'"
    with pytest.raises(Refused, match="code of its own"):
        table.bind(call_of(code), module)


def test_a_module_with_other_parts_is_not_answered_for() -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code))
    module.extra = nn.Linear(1, 1)
    (reason,) = asked(table, module, plan_of())[1].report().eager
    assert "other parts or modes" in reason


def test_a_request_ends_with_what_it_began_with() -> None:
    module, code, plan = Toy(), Code(), plan_of()
    table = CompiledCalls(card="toy", mode="auto")
    running = RequestCompiled(table=table)
    forward_for((running,), plan, module, plan.inputs)
    table.arm([table.bind(call_of(code), module)])
    forward_for((running,), plan, module, plan.inputs)
    assert (running.report().executed, len(code.given)) == (0, 0)
    assert asked(table, module, plan)[1].report().executed == 1


def test_requests_that_began_with_different_cells_run_eagerly_where_their_steps_run_as_one() -> None:
    module, code, plan = Toy(), Code(), plan_of(torch.ones(2, SIZE))
    table = CompiledCalls(card="toy", mode="auto")
    early, late = RequestCompiled(table=table), RequestCompiled(table=table)
    assert early.calls == ()
    table.arm([table.bind(call_of(code, batch=(1, 2)), module)])
    for together in ((late, early), (early, late)):
        answer = forward_for(together, plan, module, plan.inputs)
        assert torch.equal(answer, module(*plan.inputs.values()))
    told = {"requests that began with different cells run as one": 2}
    assert early.report().eager == late.report().eager == told
    # The control: together with its like, it is answered.
    forward_for((late, RequestCompiled(table=table)), plan, module, plan.inputs)
    assert late.report().executed == len(code.given) == 1


def test_a_call_that_is_disarmed_answers_no_running_request_either() -> None:
    module, code, plan = Toy(), Code(), plan_of()
    table = table_with(module, call_of(code))
    running = RequestCompiled(table=table)
    forward_for((running,), plan, module, plan.inputs)
    table.disarm("toy", "an order")
    forward_for((running,), plan, module, plan.inputs)
    assert running.report().executed == 1
    assert table.counters.refused == {"an order": 1}


def test_one_code_serves_several_components() -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code), call_of(code, component="second"))
    assert table.counters.armed == 2


def test_what_must_run_compiled_is_refused_where_it_cannot() -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code))
    table.mode, table.remedy = "require", "restrike mint toy"
    asked(table, module, plan_of())
    with pytest.raises(Refused, match=r"'toy' must run compiled, and cannot: axis 0 .* is 2.*restrike mint"):
        asked(table, module, plan_of(torch.ones(2, SIZE)))
    table.refused("toy 2", "not faster than eager", "2 ms, eager 1 ms")
    with pytest.raises(Refused, match=r"is 2, .*; cell toy 2: not faster than eager: 2 ms, eager 1 ms; rest"):
        asked(table, module, plan_of(torch.ones(2, SIZE)))
    with pytest.raises(Refused, match="the request is exact"):
        RequestCompiled(table=table, exact=True).check()
    with pytest.raises(Refused, match="no cell is armed"):
        RequestCompiled(table=CompiledCalls(card="toy", mode="require")).check()


def test_an_exact_request_runs_eagerly() -> None:
    module, code, plan = Toy(), Code(), plan_of()
    table = table_with(module, call_of(code))
    request = RequestCompiled(table=table, exact=True)
    forward_for((request,), plan, module, plan.inputs)
    assert request.report().eager == {"the request is exact": 1}
    assert not code.given


def test_a_gap_is_told_once_and_only_where_cells_are_expected() -> None:
    module = Toy()
    table = table_with(module, call_of(Code()))
    odd = plan_of(torch.ones(2, SIZE))
    said = [asked(table, module, odd)[1].notices() for _ in range(2)]
    assert said == [
        ("cells answered 0 of 1 forwards; eager: axis 0 of 'latent' is 2, compiled for 1 (1)",),
        (),
    ]
    empty = CompiledCalls(card="toy", mode="auto")
    assert asked(empty, module, odd)[1].notices() == ()
    empty.asked = True
    assert "no cell is armed for 'toy' (1)" in asked(empty, module, odd)[1].notices()[0]


def test_off_counts_nothing_and_asks_nobody() -> None:
    module, code = Toy(), Code()
    table = table_with(module, call_of(code))
    table.mode = "off"
    request = asked(table, module, plan_of())[1]
    assert (request.report().executed, request.report().eager, code.given) == (0, {}, [])

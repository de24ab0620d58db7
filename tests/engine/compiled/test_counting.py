"""What is counted of a step: its request's forwards, and none of those that only prove a graph of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from engine.capture.lab import ALWAYS
from restrike.cards import registry
from restrike.engine.capture.capturer import Capturer
from restrike.engine.capture.request import RequestCapture
from restrike.engine.capture.tape import TapeBackend
from restrike.engine.compiled.counters import CompiledReport
from restrike.engine.compiled.request import RequestCompiled
from restrike.engine.compiled.table import CompiledCalls
from restrike.engine.execution import execute
from restrike.engine.extensions import ExtensionMemory
from restrike.loops.contract import Forward, Tensors

from .toys import SIZE, Code, Toy, call_of, plan_of, table_with

STEPS, RUNS = 6, 3
"""A graph answers from the fourth step on."""


@pytest.fixture(autouse=True)
def _as_the_engine_does() -> Iterator[None]:
    with torch.inference_mode():
        yield


def taped() -> RequestCapture:
    """A request whose steps are captured, proved, and always armed."""
    capturer = Capturer(TapeBackend(torch.device("cpu")), ALWAYS)
    return RequestCapture(capturer=capturer, card="toy", spec=registry.card("digits").loops[0])


def run(module: Toy, table: CompiledCalls, capture: RequestCapture, *, batch: int = 1) -> CompiledReport:
    """Run the steps of one request."""
    request = RequestCompiled(table=table)
    for step in range(STEPS):
        plan = plan_of(torch.full((batch, SIZE), float(step)))
        execute(plan, module, ExtensionMemory(extensions=()), (capture,), (request,))
    assert capture.report().replays == STEPS - RUNS
    return request.report()


def test_what_proves_a_graph_is_no_forward_of_a_request() -> None:
    module, code = Toy().requires_grad_(False), Code()
    table = table_with(module, call_of(code))
    report = run(module, table, taped())
    assert len(code.given) > STEPS  # The control: to prove the graph it ran more often.
    assert report == CompiledReport(cells={"k": STEPS})
    assert (table.counters.executed, table.counters.eager) == (STEPS, {})
    assert table.explain() == (f"cell toy k: armed, {STEPS} forwards",)


def test_a_forward_that_only_proves_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestCompiled, "on_trial", False)
    module = Toy().requires_grad_(False)
    assert run(module, table_with(module, call_of(Code())), taped()).executed > STEPS


def test_nor_is_an_eager_one() -> None:
    module, code = Toy().requires_grad_(False), Code()
    table = table_with(module, call_of(code))
    report, gap = run(module, table, taped(), batch=2), "axis 0 of 'latent' is 2, compiled for 1"
    assert report == CompiledReport(eager={gap: RUNS})
    assert table.counters.eager == {gap: RUNS}
    assert not code.given


def test_a_step_that_failed_and_is_run_again_is_no_trial() -> None:
    module, code = Toy().requires_grad_(False), Code()
    request, capture = RequestCompiled(table=table_with(module, call_of(code))), taped()

    def fails(forward: Forward, inputs: Tensors) -> Tensors:
        forward("cond", inputs)
        raise ZeroDivisionError

    nobody = ExtensionMemory(extensions=())
    with pytest.raises(ZeroDivisionError):
        execute(replace(plan_of(), compute=fails), module, nobody, (capture,), (request,))
    execute(plan_of(), module, nobody, (capture,), (request,))
    assert request.report() == CompiledReport(cells={"k": 2})


def test_one_line_tells_of_cells_and_of_eager_forwards() -> None:
    report = CompiledReport(cells={"ab" * 32: 3}, eager={"autocast is on": 1})
    line = "cells answered 3 of 4 forwards (abababababab 3); eager: autocast is on (1)"
    assert report.told(report.eager) == line
    assert CompiledReport(cells={"k": 2}).told({}) == "cells answered 2 of 2 forwards (k 2)"

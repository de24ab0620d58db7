"""Compiled code where operations are watched or recorded: one operation, whatever it does inside."""

from __future__ import annotations

import weakref

import torch
from torch import Tensor

from restrike.engine.capture.tape import TapeBackend
from restrike.engine.capture.trace import Inspection
from restrike.engine.compiled.opaque import Opaque
from restrike.loops.contract import Tensors

HIDDEN = torch.full((3,), 2.0)
"""Memory that is compiled code's own: no step made it, and no one who watches knows it."""


def code(inputs: Tensors) -> Tensor:
    return inputs["latent"] * HIDDEN + inputs["timestep"]


def given(value: float) -> dict[str, Tensor]:
    return {"timestep": torch.ones(3), "latent": torch.full((3,), value)}


def watched(run: object, inputs: dict[str, Tensor]) -> Inspection:
    with Inspection(inputs) as inspection:
        run(inputs)  # pyright: ignore[reportCallIssue]
    return inspection


def test_who_watches_sees_one_operation_and_none_of_its_memory() -> None:
    trace = watched(Opaque(code), given(3.0)).trace()
    assert [each.name for each in trace.operations] == ["restrike.compiled_call.default"]
    assert (trace.faults, trace.produced_bytes) == ((), 12)
    # The control: watched within, it cannot be captured.
    assert "neither an input" in watched(code, given(3.0)).trace().faults[0]


def test_a_tape_holds_it_and_follows_the_inputs() -> None:
    opaque, inputs = Opaque(code), given(3.0)
    tape = TapeBackend(torch.device("cpu")).capture(lambda given: {"out": opaque(given) + 1}, inputs)
    inputs["latent"].fill_(5.0)
    tape.replay()
    assert torch.equal(tape.outputs["out"], torch.full((3,), 12.0))


def test_unwatched_it_is_the_code_itself() -> None:
    seen: list[Tensors] = []

    def remembering(inputs: Tensors) -> Tensor:
        seen.append(inputs)
        return code(inputs)

    inputs = given(3.0)
    assert torch.equal(Opaque(remembering)(inputs), torch.full((3,), 7.0))
    assert seen[0] is inputs


def test_code_that_nobody_has_bound_any_more_is_let_go() -> None:
    opaque = Opaque(lambda inputs: code(inputs))
    held = weakref.ref(opaque.run)
    del opaque
    assert held() is None

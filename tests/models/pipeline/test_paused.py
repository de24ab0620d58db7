"""The thread that a call runs on: it takes turns, hands over what is raised, and never stays behind."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from restrike.models.pipeline.paused import PausedCall, Returned, StepDone


def three_steps(call: PausedCall) -> str:
    for _ in range(3):
        call.pause(StepDone(None))
    return "done"


def test_it_stands_still_at_every_stop() -> None:
    call = PausedCall(three_steps, "pipeline-test")
    assert [call.go_on() for _ in range(4)] == [StepDone(None)] * 3 + [Returned("done")]


def test_what_is_raised_comes_to_the_caller() -> None:
    def fails(call: PausedCall) -> None:
        call.pause(StepDone(None))
        raise ZeroDivisionError("in the thread")

    call = PausedCall(fails, "pipeline-test")
    call.go_on()
    with pytest.raises(ZeroDivisionError, match="in the thread"):
        call.go_on()


def test_abandoning_unwinds_through_every_handler() -> None:
    seen = []

    def stubborn(call: PausedCall) -> None:
        try:
            while True:
                try:
                    call.pause(StepDone(None))
                except Exception:
                    seen.append("swallowed")
        finally:
            seen.append("unwound")

    call = PausedCall(stubborn, "pipeline-test")
    call.go_on()
    call.abandon()
    assert seen == ["unwound"]


def test_abandoning_a_call_that_runs_waits_for_its_next_stop() -> None:
    """An interrupt takes the caller out of `go_on` while the other thread still computes."""
    entered, may_stop = threading.Event(), threading.Event()

    def slow(call: PausedCall) -> None:
        entered.set()
        may_stop.wait()
        call.pause(StepDone(None))

    call = PausedCall(slow, "pipeline-test")
    call._thread.start()  # what is left of an interrupted go_on
    entered.wait()
    abandoning = threading.Thread(target=call.abandon)
    abandoning.start()
    abandoning.join(timeout=0.05)
    assert abandoning.is_alive()
    may_stop.set()
    abandoning.join(timeout=5)
    assert not abandoning.is_alive()


def test_abandoning_before_the_first_step_and_after_the_last_does_nothing() -> None:
    call = PausedCall(three_steps, "pipeline-test")
    call.abandon()
    while call.go_on() != Returned("done"):
        pass
    call.abandon()


def test_the_call_runs_without_gradients_whatever_its_caller_does() -> None:
    modes: list[Any] = []

    def look(call: PausedCall) -> None:
        modes.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))

    for caller in (torch.enable_grad(), torch.inference_mode()):
        with caller:
            PausedCall(look, "pipeline-test").go_on()
    assert modes == [(False, False), (False, False)]

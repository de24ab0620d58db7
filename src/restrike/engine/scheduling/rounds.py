"""Requests side by side: each round takes one step of each, in the order in which they came.

It holds requests at their boundaries and executes what they planned; it never looks into a request's state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import Any

import torch

from restrike.engine.events import Event
from restrike.engine.execution import execute
from restrike.engine.requests import Between, ReadyRequest, RequestSteps, StepDone, StepReady
from restrike.engine.scheduling.gates import Ask

Happened = tuple[Hashable, Event]
"""An event, under the name that its request was added by."""

Resume = Callable[[RequestSteps], Any]


@dataclass(kw_only=True, eq=False)
class _Member:
    """A request that takes part, and the step before which it stands."""

    name: Hashable
    steps: RequestSteps
    ready: StepReady | None = None


class Rounds:
    """The requests that one thread drives."""

    def __init__(self) -> None:
        self._members: list[_Member] = []

    def add(self, name: Hashable, request: ReadyRequest) -> None:
        """Let a request take part from the next round on; nothing of it runs before."""
        self._members.append(_Member(name=name, steps=request.steps()))

    def __len__(self) -> int:
        """How many requests have not ended."""
        return len(self._members)

    def round(self) -> Generator[Happened, None, None]:
        """One step of each request, as its events are asked for.

        Nobody plans a step before its own turn, so that what a loop shares by mistake shows in its bytes.
        """
        for member in list(self._members):
            yield from self._resumed(member, lambda steps: next(steps))
            if member.ready is not None:
                yield from self._step(member, member.ready)

    def _step(self, member: _Member, ready: StepReady) -> Generator[Happened, None, None]:
        member.ready = None
        try:
            done = _executed(ready)
        except Exception as error:
            failure = error
            yield from self._resumed(member, lambda steps: steps.throw(failure))
        else:
            yield from self._resumed(member, lambda steps: steps.send(done))

    def _resumed(self, member: _Member, resume: Resume) -> Generator[Happened, None, None]:
        """Resume a request and pass on its events until it stands before a step or between two, or ends."""
        try:
            stop = resume(member.steps)
            while not isinstance(stop, StepReady | Between):
                if not isinstance(stop, Ask):
                    yield member.name, stop
                stop = next(member.steps)
            member.ready = stop if isinstance(stop, StepReady) else None
        except StopIteration:
            self._drop(member)
        except BaseException:
            self._drop(member)
            raise

    def _drop(self, member: _Member) -> None:
        member.steps.close()
        self._members.remove(member)

    def close(self) -> None:
        """Stop all requests and let go of what they hold."""
        for member in list(self._members):
            self._drop(member)


def _executed(ready: StepReady) -> StepDone:
    plan, run = ready.plan, ready.run
    with run.turn, torch.inference_mode():
        began = time.perf_counter()
        outputs = execute(plan, run.context.component(plan.component), run.memory)
        return StepDone(outputs=outputs, seconds=time.perf_counter() - began)

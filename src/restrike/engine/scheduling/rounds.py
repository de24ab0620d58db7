"""Requests side by side: each round takes one step of each, in the order in which they came.

It holds requests at their boundaries and has executed what they planned; it never looks into their state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from restrike.engine.events import TERMINAL, Event, Noticed
from restrike.engine.execution import execute
from restrike.engine.extensions import ExtensionMemory
from restrike.engine.requests import Between, PlannedStep, ReadyRequest, RequestSteps, StepDone, StepReady
from restrike.engine.scheduling import batching
from restrike.engine.scheduling.door import Door, Ticket
from restrike.engine.scheduling.gates import Ask
from restrike.engine.scheduling.states import State, state_after
from restrike.engine.scheduling.tally import Tally
from restrike.errors import RestrikeError

Happened = tuple[Hashable, Event]
"""An event, under the name that its request was added by."""
BOUNDARIES = (StepReady, Between, Ask)
"""Where a request stands still until it is decided about."""
POLL_S = 0.1
"""How soon a waiting request sees that it was cancelled."""

Resume = Callable[[RequestSteps], Any]


@dataclass(kw_only=True, eq=False)
class _Member:
    """A request that takes part: its place at the door, and the steps before which it stands."""

    name: Hashable
    request: ReadyRequest
    steps: RequestSteps
    ticket: Ticket | None = None
    told_to_wait: bool = False
    ready: tuple[PlannedStep, ...] = ()
    done: dict[int, StepDone] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        return self.ticket is not None and not self.ticket.inside


class Rounds:
    """The requests that one thread drives, up to `batch_limit` of their steps in one forward."""

    def __init__(self, door: Door, tally: Tally, *, batch_limit: int = 1) -> None:
        self._door, self._tally, self._batch_limit = door, tally, batch_limit
        self._members: list[_Member] = []

    def add(self, name: Hashable, request: ReadyRequest) -> None:
        """Let a request take part from the next round on; nothing of it runs before."""
        self._members.append(_Member(name=name, request=request, steps=request.steps()))

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The requests that have not ended, by name."""
        return tuple(member.name for member in self._members)

    def round(self) -> Generator[Happened, None, None]:
        """One step of each request that was let in, as its events are asked for."""
        self._tally.round()
        for member in list(self._members):
            yield from self._to_boundary(member)
        for group in self._groups():
            yield from self._run_group(group)

    def _to_boundary(self, member: _Member) -> Generator[Happened, None, None]:
        if member.ready:
            return
        if not member.waits:
            yield from self._resumed(member, next)
        if member.waits:
            yield from self._at_the_door(member)

    def _at_the_door(self, member: _Member) -> Generator[Happened, None, None]:
        ticket = member.ticket
        assert ticket is not None
        try:
            member.request.cancellation.check()
            entered = self._door.enter(ticket)
        except RestrikeError as error:
            yield from self._failed(member, error)
            return
        if entered:
            yield from self._resumed(member, next)
        elif not member.told_to_wait:
            member.told_to_wait = True
            yield member.name, Noticed(message=f"waits for {self._door.waiting_for(ticket)}")

    def wait(self) -> Generator[Happened, None, None]:
        """When all that are left stand at the door: wait a moment for somebody to leave."""
        waiting = [member for member in self._members if member.waits]
        if not waiting or len(waiting) < len(self._members):
            return
        first = waiting[0]
        assert first.ticket is not None
        try:
            self._door.wait(first.ticket, POLL_S)
        except RestrikeError as error:
            yield from self._failed(first, error)

    def _groups(self) -> list[list[tuple[_Member, int]]]:
        places = [(member, index) for member in self._members for index in range(len(member.ready))]
        if self._batch_limit == 1:
            return [[place] for place in places]
        signatures = [batching.signature(member.ready[index]) for member, index in places]
        return batching.groups(places, signatures, self._batch_limit)

    def _run_group(self, group: list[tuple[_Member, int]]) -> Generator[Happened, None, None]:
        # Another picture of the same request may have failed in an earlier group of this round.
        places = [(member, index) for member, index in group if member.ready]
        for (member, index), result in self._results(places):
            if isinstance(result, Exception):
                yield from self._failed(member, result)
            else:
                member.done[index] = result
        for member in dict.fromkeys(member for member, _ in places):
            if member.ready and len(member.done) == len(member.ready):
                done = tuple(member.done[index] for index in range(len(member.ready)))
                member.ready, member.done = (), {}
                yield from self._resumed(member, lambda steps, done=done: steps.send(done))

    def _results(
        self, places: list[tuple[_Member, int]]
    ) -> Iterator[tuple[tuple[_Member, int], StepDone | Exception]]:
        steps = [member.ready[index] for member, index in places]
        if len(steps) > 1:
            try:
                together = self._together(steps)
            except Exception:
                # Whose fault it is shows when each runs alone; so it costs nobody else anything.
                self._tally.alone_again(len(steps))
            else:
                yield from zip(places, together, strict=True)
                return
        for (member, index), step in zip(places, steps, strict=True):
            if member.ready:  # no other picture of its request has failed
                yield (member, index), self._alone(step)

    def _together(self, steps: list[PlannedStep]) -> list[StepDone]:
        run, plan = steps[0].run, steps[0].plan
        with run.turn, torch.inference_mode():
            began = time.perf_counter()
            module = run.context.component(plan.component)
            whole = batching.stacked([step.plan for step in steps])
            with steps[0].request.step_phase(whole):
                captures = [step.request.capture for step in steps]
                # Pictures of one request share a forward: it is one to that request.
                requests = {id(step.request): step.request for step in steps}.values()
                compiled = [request.compiled for request in requests]
                outputs = execute(whole, module, ExtensionMemory(extensions=()), captures, compiled)
            outputs = batching.rows(outputs, len(steps))
            seconds = time.perf_counter() - began
        self._tally.forward(plan.component, len(steps))
        return [StepDone(outputs=each, seconds=seconds) for each in outputs]

    def _alone(self, step: PlannedStep) -> StepDone | Exception:
        plan, run = step.plan, step.run
        try:
            with run.turn, torch.inference_mode():
                began = time.perf_counter()
                module = run.context.component(plan.component)
                with step.request.step_phase(plan):
                    request = step.request
                    outputs = execute(plan, module, run.memory, (request.capture,), (request.compiled,))
                seconds = time.perf_counter() - began
        except Exception as error:
            return error
        self._tally.forward(plan.component, 1)
        return StepDone(outputs=outputs, seconds=seconds)

    def _failed(self, member: _Member, error: Exception) -> Generator[Happened, None, None]:
        member.ready, member.done = (), {}
        yield from self._resumed(member, lambda steps: steps.throw(error))

    def _resumed(self, member: _Member, resume: Resume) -> Generator[Happened, None, None]:
        """Resume a request and pass on its events until it has to be decided about again, or ends."""
        try:
            stop = resume(member.steps)
            while not isinstance(stop, BOUNDARIES):
                if isinstance(stop, TERMINAL):
                    # Whoever is told of the end finds all that it held free.
                    self._drop(member)
                    self._tally.ended(state_after(stop, State.RUNNING))
                    yield member.name, stop
                    return
                yield member.name, stop
                stop = next(member.steps)
            if isinstance(stop, Ask):
                member.ticket = self._door.queue(stop)
            if isinstance(stop, StepReady):
                member.ready = stop.steps
        except BaseException:
            self._drop(member)
            raise

    def _drop(self, member: _Member) -> None:
        if member in self._members:
            self._members.remove(member)
        try:
            member.steps.close()
        finally:
            if member.ticket is not None:
                self._door.leave(member.ticket)

    def close(self) -> None:
        """Stop all requests and let go of what they hold."""
        with ExitStack() as drops:
            for member in reversed(self._members):
                drops.callback(self._drop, member)

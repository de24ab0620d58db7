"""The progress bar that a pipeline of one request gets: it draws nothing and stops the call instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tqdm import tqdm

from restrike.models.pipeline.paused import LoopBegun, PausedCall, StepDone


class _StepBar(tqdm):
    """Tells where a loop begins and, if `counts`, where each of its steps ends."""

    monitor_interval = 0

    def __init__(self, call: PausedCall, counts: bool, iterable: Any, total: int | None) -> None:
        super().__init__(iterable, total=total, disable=True)
        self._call, self._counts = call, counts
        call.pause(LoopBegun(self.total))

    def __iter__(self) -> Iterator[Any]:
        assert self.iterable is not None
        for value in self.iterable:
            yield value
            self.update()

    def update(self, n: float | None = 1) -> None:
        if self._counts:
            self._call.pause(StepDone(None))


def bar_of(pipeline: Any, call: PausedCall, *, counts: bool) -> Callable[..., Any]:
    """What takes the place of the pipeline's `progress_bar`; `counts` makes its updates the steps."""

    def progress_bar(iterable: Any = None, total: int | None = None, **drawing: Any) -> Any:
        # A step callback comes at every timestep, a bar's update once for all timesteps of a higher order.
        timesteps = None if counts else getattr(pipeline, "_num_timesteps", None)
        return _StepBar(call, counts, iterable, timesteps or total)

    return progress_bar

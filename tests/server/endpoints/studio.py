"""Endpoints of an operator's own, some of which do on purpose what endpoints do on a bad day."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from pydantic import BaseModel, Field, field_validator

import restrike

if "TRACES" in os.environ:
    with Path(os.environ["TRACES"]).open("a") as traces:
        traces.write(f"{os.getpid()}\n")


class Ask(BaseModel):
    prompt: str = Field(default="a seven", pattern=r"^[a-z ]+$")
    steps: int = Field(default=3, ge=1, le=1000)
    name: str = "digit.png"

    @field_validator("prompt")
    @classmethod
    def _no_eight(cls, prompt: str) -> str:
        if "eight" in prompt:
            raise ValueError("no eight is drawn here")
        return prompt


class Perilous(BaseModel):
    times: int
    counter: str


class Ending(BaseModel):
    status: int


class Littering(BaseModel):
    runs: str


class Look(BaseModel):
    image: restrike.Pixels


class Nothing(BaseModel):
    pass


@restrike.endpoint(slots={"pipeline": restrike.Slot(tasks=("text-to-image",))})
class Studio:
    """Digits, well and badly."""

    def setup(self, ctx: restrike.Context) -> None:
        self.calls = 0

    def draw(self, ctx: restrike.Context, payload: Ask) -> restrike.Saved:
        """A digit."""
        self.calls += 1
        ctx.progress(0.25, "begins")
        made = ctx.slots["pipeline"].generate(payload.prompt, steps=payload.steps)
        ctx.progress(0.75, "saves")
        return ctx.save_image(made, payload.name)

    def repaint(self, ctx: restrike.Context, payload: Ask) -> int:
        """A digit with changed pixels; a steps value that is too large is clamped."""
        steps = ctx.clamp("steps", payload.steps, 1, 4)
        pixels = ctx.slots["pipeline"].generate(payload.prompt, steps=steps).picture.frames_THWC[0]
        ctx.save_image(255 - pixels, "negative.png")
        return steps

    def fail(self, ctx: restrike.Context, payload: Ask) -> None:
        """Saves a digit, then raises."""
        ctx.save_image(ctx.slots["pipeline"].generate(payload.prompt, steps=2), "lost.png")
        raise KeyError("nothing there")

    def die(self, ctx: restrike.Context, payload: Perilous) -> int:
        """Saves a digit, and kills its process the first so many times."""
        ctx.save_image(ctx.slots["pipeline"].generate("a two", steps=2), "two.png")
        path = Path(payload.counter)
        with path.open("a") as file:
            file.write("x")
        if path.stat().st_size <= payload.times:
            os.kill(os.getpid(), signal.SIGKILL)
        return ctx.seed

    def quit(self, ctx: restrike.Context, payload: Ending) -> None:
        """Ends its process as one does that is done, or that shall be followed by a fresh one."""
        os._exit(payload.status)

    def fork(self, ctx: restrike.Context, payload: Nothing) -> str:
        """Forks, lets the copy go on, and returns after that has ended."""
        if (copy := os.fork()) == 0:
            return "the copy"
        os.waitpid(copy, 0)
        return "the handler"

    def litter(self, ctx: restrike.Context, payload: Littering) -> None:
        """Makes folders in that of its own run, the newest, and fails."""
        (max(Path(payload.runs).glob("[0-9]*")) / "more" / "inside").mkdir(parents=True)
        raise KeyError("nothing there")

    def deaf(self, ctx: restrike.Context, payload: Nothing) -> None:
        """Waits, and hears nothing meanwhile but at the end of each slice."""
        for _ in range(600):
            time.sleep(0.1)
            ctx.check()

    def odd(self, ctx: restrike.Context, payload: Nothing) -> float:
        """Returns what JSON cannot hold."""
        return float("nan")


@restrike.endpoint()
def look(ctx: restrike.Context, payload: Look) -> list[int]:
    """The size of a picture."""
    return list(payload.image.shape)


@restrike.endpoint(slots={"painter": restrike.Slot()})
def painted(ctx: restrike.Context, payload: Nothing) -> str:
    """Which card paints."""
    return ctx.slots["painter"].card.name

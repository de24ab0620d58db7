"""How one of several requests ended, when the others must not suffer from it."""

from __future__ import annotations

from dataclasses import dataclass

from restrike.engine.events import Event, Failed, Stopped, Succeeded
from restrike.engine.result import Generation, Picture
from restrike.errors import RestrikeError


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A generation or an error; `pictures` are those that were finished, in either case."""

    pictures: tuple[Picture, ...]
    generation: Generation | None = None
    error: RestrikeError | None = None

    def result(self) -> Generation:
        """The generation; raises what made the request fail or stop."""
        if self.error is not None:
            raise self.error
        assert self.generation is not None
        return self.generation


def outcome_of(last: Event, pictures: tuple[Picture, ...]) -> Outcome:
    """What the terminal event of a request says, with the pictures that it had finished until then."""
    match last:
        case Succeeded(generation=generation):
            return Outcome(pictures=generation.pictures, generation=generation)
        case Failed(error=error) | Stopped(error=error):
            return Outcome(pictures=pictures, error=error)
        case _:
            raise RuntimeError("a stream ended without a terminal event")

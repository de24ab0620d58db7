"""What cannot be keyed, and where in the user's own value it stands. Nothing here looks at values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from restrike.errors import Refused

Step = str | int
"""One step into a value: the name of a part, entry or field, or the index of an item."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)


class Unkeyable(Refused):
    """A value has no key, so nothing that depends on it can be reused."""

    def __init__(self, reason: str, steps: tuple[Step, ...] = ()) -> None:
        self.reason = reason
        self.steps = steps
        super().__init__(f"{self.path}: {reason}" if steps else reason)

    def __reduce__(self) -> tuple[type[Unkeyable], tuple[str, tuple[Step, ...]]]:
        # Exception's own would call the class with the finished message, in the process that receives it.
        return Unkeyable, (self.reason, self.steps)

    @property
    def path(self) -> str:
        """The place of the offending value, such as `arguments.prompt[3].x`."""
        return dotted(self.steps)

    def inside(self, step: Step) -> Unkeyable:
        """The same refusal, seen from one container further out."""
        return Unkeyable(self.reason, (step, *self.steps))


def dotted(steps: Iterable[Step]) -> str:
    """Write a place as `a.b[3]["odd name"]`; two places never share a text."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_NAME.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step)}]"
    return text

"""Where the code of a served endpoint is, as a server tells its workers. It reads no file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, kw_only=True)
class Origin:
    """One endpoint by the name that it is served under.

    `place` names its code as `endpoints.finding.find` takes it. `source` is the digest of that code when the
    server looked at it, `slots` what the server fills its slots with.
    """

    name: str
    place: str
    source: str
    slots: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """One word of a command line, which `origin_of` reads."""
        return json.dumps(asdict(self))


def origin_of(text: str) -> Origin:
    """The origin of a word."""
    return Origin(**json.loads(text))

"""What a client asks for, as values, and as the JSON that a server takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

if TYPE_CHECKING:
    from restrike.workflow.source import Source

_JOBS = "/api/jobs"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of a submission.

    `client_id` makes a retry idempotent: the same id and work give the same job. Of two waiting jobs the one
    of higher `priority` goes first. `accept_plan` is a plan's fingerprint: the job is refused when something
    else would run by now. `max_seconds` and `max_download_bytes` refuse what is expected to cost more.
    """

    client_id: str | None = None
    priority: int = 0
    accept_plan: str | None = None
    max_seconds: float | None = None
    max_download_bytes: int | None = None

    def tree(self) -> dict[str, Any]:
        """As JSON has it."""
        return _without_none(asdict(self))


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A workflow to run, and what it is run with.

    `definition` is the name of a workflow that the server keeps, or a whole one as plain values. One that is
    `trusted` may name folders of the server, for which a token needs the scope admin.
    """

    definition: str | Mapping[str, Any]
    values: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    reuse: bool = True
    rerun: tuple[str, ...] = ()
    trusted: bool = False
    path: ClassVar[str] = _JOBS

    @classmethod
    def of(cls, source: Source, **asked: Any) -> Workflow:
        """A workflow as its author wrote it, such as `restrike.workflow.source.read_file` reads it."""
        return cls(definition={"name": source.name, **source.tree}, **asked)

    def tree(self) -> dict[str, Any]:
        """As JSON has it."""
        return _without_none(
            {
                "workflow": self.definition,
                "values": dict(self.values),
                "seed": self.seed,
                "reuse": self.reuse,
                "rerun": list(self.rerun),
                "trusted": self.trusted,
            }
        )


@dataclass(frozen=True, kw_only=True)
class Generation:
    """Pictures to make of a prompt.

    `count` is how many, `output` the kind of file, such as `mp4`; `options` are the other fields of
    `restrike.Request`, with the name of an asset, `$asset.NAME`, for a picture. One that is `trusted` may
    name folders of the server, for which a token needs the scope admin.
    """

    prompt: str
    card: str
    count: int = 1
    output: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    trusted: bool = False
    path: ClassVar[str] = _JOBS

    def tree(self) -> dict[str, Any]:
        """As JSON has it."""
        # Which pictures says how many; a count beside it, if there is one, is the server's to refuse.
        count = None if "items" in self.options and self.count == 1 else self.count
        given = {"prompt": self.prompt, "card": self.card, "n": count, "output": self.output}
        return {"generation": _without_none({**given, **self.options}), "trusted": self.trusted}


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of an endpoint that the server serves.

    `payload` is as the handler's schema says, with `$asset.NAME` for a picture; `handler` is needed when
    there are several. `slots` are models in place of the server's own, a folder of the server when it is
    `trusted`.
    """

    endpoint: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    handler: str | None = None
    seed: int | None = None
    slots: Mapping[str, str] = field(default_factory=dict)
    trusted: bool = False

    @property
    def path(self) -> str:
        """Where it is sent."""
        named = (self.endpoint, self.handler) if self.handler is not None else (self.endpoint,)
        return "/".join(("/api/endpoints", *(quote(name, safe="") for name in named)))

    def tree(self) -> dict[str, Any]:
        """As JSON has it."""
        given = {"payload": dict(self.payload), "seed": self.seed, "slots": dict(self.slots)}
        return _without_none({**given, "trusted": self.trusted})


Work = Workflow | Generation
"""What can be planned."""


def _without_none(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if value is not None}

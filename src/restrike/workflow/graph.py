"""The graph that a definition expands to: actions, each one computation, joined by what they read.

It holds resolved constants and inputs only; names are for people and for files, and decide no key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from restrike.keys import Digest
from restrike.workflow.definition import ResultSpec
from restrike.workflow.findings import Place


@dataclass(frozen=True, kw_only=True)
class Input:
    """A place in an argument that takes another action's value, or a part of it."""

    action: str
    item: int | None = None
    field: str | None = None


FileKind = Literal["json", "text", "file", "media"]
_KINDS: Mapping[str, FileKind] = {
    ".json": "json",
    **dict.fromkeys((".txt", ".md"), "text"),
    **dict.fromkeys((".safetensors", ".param", ".bin", ".ttf", ".otf"), "file"),
}


@dataclass(frozen=True, kw_only=True)
class FileInput:
    """A place in an argument that takes what a file holds. `shown` is how the author named it."""

    path: Path
    digest: Digest
    shown: str

    @property
    def kind(self) -> FileKind:
        """What is read from it, by its suffix: equal bytes of two kinds are two values."""
        return _KINDS.get(self.path.suffix.lower(), "media")


class Operation(Protocol):
    """What an action computes: one kind each for generate, pipeline and task steps."""

    @property
    def label(self) -> str:
        """For people, and to group measured times: `generate shapes`."""
        ...

    @property
    def reusable(self) -> bool:
        """False for declared side effects."""
        ...

    @property
    def draws(self) -> bool:
        """Whether its output depends on the seed."""
        ...

    def identity(self) -> Mapping[str, object]:
        """All that decides its output but arguments, inputs and seed: epoch, weights, code, loading."""
        ...

    def exact_identity(self) -> Mapping[str, object]:
        """What `match: exact` adds: device architecture, torch version, attention backend."""
        ...

    def timing_label(self, arguments: Mapping[str, Any]) -> str:
        """What groups runs that take about as long: the label, and the sizes that matter."""
        ...

    def download_bytes(self) -> int | None:
        """What has to be fetched before it can run; None when that cannot be found out now."""
        ...

    def fetch(self) -> None:
        """Bring to this machine what `identity` needs; called when that raised NotHere."""
        ...


@dataclass(frozen=True, kw_only=True)
class Action:
    """One computation. `arguments` is a tree of plain values with `Input` and `FileInput` leaves.

    `id` is its step's name, with the member of a for_each or the number of a segment: `many[left]`,
    `long[0]`; a step of a nested workflow has its parent's before it: `child[left]/base`. `step` is the same
    without its own member.
    """

    id: str
    step: str
    operation: Operation
    arguments: Mapping[str, Any]
    seed: int | None
    result: ResultSpec
    saves: bool
    place: Place = field(compare=False)

    def inputs(self) -> Iterator[Input]:
        """Every other action's value that it reads."""
        yield from _leaves(self.arguments, Input)

    def files(self) -> Iterator[FileInput]:
        """Every file that it reads."""
        yield from _leaves(self.arguments, FileInput)


def _leaves(tree: Any, kind: type[Any]) -> Iterator[Any]:
    if isinstance(tree, kind):
        yield tree
    elif isinstance(tree, Mapping):
        for entry in tree.values():
            yield from _leaves(entry, kind)
    elif isinstance(tree, list | tuple):
        for entry in tree:
            yield from _leaves(entry, kind)


def filled(tree: Any, fill: Any) -> Any:
    """The tree with each `Input` and `FileInput` replaced by what `fill` gives for it."""
    if isinstance(tree, Input | FileInput):
        return fill(tree)
    if isinstance(tree, Mapping):
        return {name: filled(entry, fill) for name, entry in tree.items()}
    if isinstance(tree, list | tuple):
        return [filled(entry, fill) for entry in tree]
    return tree


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Actions in an order in which each comes after all that it reads.

    `elided` are the ids of those that nothing reads and that save nothing; `realized` is the definition with
    all that this expansion decided written into it: values of variables, drawn seeds, other files, prompts.
    """

    name: str
    actions: tuple[Action, ...]
    elided: tuple[str, ...]
    notices: tuple[str, ...]
    variables: Mapping[str, Any]
    seed: int
    scope: str
    match: str
    realized: Mapping[str, Any]

    def action(self, name: str) -> Action:
        """The action of that id."""
        return self._by_id[name]

    @cached_property
    def _by_id(self) -> Mapping[str, Action]:
        return {action.id: action for action in self.actions}

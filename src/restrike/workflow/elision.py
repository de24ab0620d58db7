"""Decides which actions save their value, and drops those that nothing reads and that save nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from restrike.workflow.graph import Action


@dataclass(frozen=True, kw_only=True)
class Draft:
    """An action, and whether its result block says that it saves; None when it has no block.

    `items` is how many items its value has, 0 when it is no list, None when that is not known.
    """

    action: Action
    saves: bool | None
    items: int | None


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The drafts that run, and the ids of those that do not."""

    drafts: tuple[Draft, ...]
    elided: tuple[str, ...]


def elide(drafts: Iterable[Draft]) -> Kept:
    """Settle what is saved: what a result block says; without one, the values that no other step reads."""
    drafts = tuple(drafts)
    step_of = {draft.action.id: draft.action.step for draft in drafts}
    read = {
        step_of[source.action]
        for draft in drafts
        for source in draft.action.inputs()
        if step_of[source.action] != draft.action.step
    }
    kept: list[Draft] = []
    elided: list[str] = []
    needed: set[str] = set()
    for draft in reversed(drafts):
        action = draft.action
        saves = action.step not in read if draft.saves is None else draft.saves
        if saves or action.id in needed or not action.operation.reusable:
            needed.update(source.action for source in action.inputs())
            kept.append(replace(draft, action=replace(action, saves=saves)))
        else:
            elided.append(action.id)
    return Kept(drafts=tuple(reversed(kept)), elided=tuple(reversed(elided)))

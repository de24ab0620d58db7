"""Says why each step of a run was reused or computed, and what computed it, from the manifest and the store.

It decides nothing; all differences come from the keys themselves.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import asdict, dataclass
from typing import Any

from restrike.errors import NotFound
from restrike.keys import Difference, Key
from restrike.store.store import Store
from restrike.workflow.runs import Manifest, RunFolder, StepRecord
from restrike.workflow.settling import versions_of
from restrike.workflow.workspace import SHARED


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One action: what became of it, its key, and how the nearest earlier key differed.

    `differences` lead from the nearest key of an earlier run in the same scope to this one; empty for a
    reused step, for a new member, or when nothing of the operation was kept before. A new member is one of a
    for_each that had only others in the run `added_since`: how it differs from those says nothing.
    """

    record: StepRecord
    key: Key | None
    made_by: str
    added_since: str = ""
    nearest: Key | None = None
    differences: tuple[Difference, ...] = ()

    @property
    def why(self) -> str:
        """One line for people."""
        if self.record.status == "reused":
            return f"reused, first computed by {self.record.origin}"
        if self.record.reason:
            return f"{self.record.status}: {self.record.reason}"
        if self.key is None:
            return f"{self.record.status}; its key is not kept any more"
        if self.added_since:
            return f"{self.record.status}: a new member, which {self.added_since} did not have"
        if self.nearest is None:
            where = (
                "with the shared results" if self.key.parts.get("scope") == SHARED else "in this workspace"
            )
            return f"{self.record.status}: nothing of this operation was kept before {where}"
        changed = ", ".join(difference.path for difference in self.differences)
        return f"{self.record.status}: nearest earlier result differs in {changed}"

    @property
    def how(self) -> tuple[str, ...]:
        """A line each, for people: what cells and what captures did in it; none for what made no pictures."""
        return self.record.executed.told if self.record.executed else ()


def described(step: Explanation) -> dict[str, Any]:
    """An explanation as plain values."""
    return {
        **asdict(step.record),
        "why": step.why,
        "how": list(step.how),
        "key_parts": {name: repr(value) for name, value in step.key.parts.items()} if step.key else None,
        "nearest": step.nearest.digest.hex if step.nearest else None,
        "differences": [asdict(difference) for difference in step.differences],
    }


def explain(folder: RunFolder, store: Store) -> tuple[Explanation, ...]:
    """Explain every step of a run."""
    manifest = folder.manifest()
    before = folder.before()
    added = _added(before, manifest) if before else frozenset[str]()
    return tuple(
        _explained(record, manifest, store, before.run if before and record.action in added else "")
        for record in manifest.steps
    )


def _added(before: Manifest, manifest: Manifest) -> Set[str]:
    """The members that are new beside those of the run before, all of which are still there.

    Where one of them is gone it may be that one under another name, for a text that is edited names anew.
    """
    earlier, now = ({record.action for record in each.steps} for each in (before, manifest))
    lists = {action.rpartition("[")[0] for action in earlier if "[" in action}
    gone = {action.rpartition("[")[0] for action in earlier - now}
    return {action for action in now - earlier if action.rpartition("[")[0] in lists - gone}


def _explained(record: StepRecord, manifest: Manifest, store: Store, added_since: str) -> Explanation:
    try:
        entry = store.find(record.key) if record.key else None
    except NotFound:
        entry = None
    if entry is None:
        return Explanation(record=record, key=None, made_by=record.origin)
    made_by = versions_of(entry.origin)[0]
    if record.status == "reused" or added_since:
        return Explanation(record=record, key=entry.key, made_by=made_by, added_since=added_since)
    nearest = store.nearest(
        entry.key,
        entry.label,
        before=min(entry.created, manifest.started),
        counts=lambda origin: versions_of(origin)[0] != manifest.run,
    )
    return Explanation(
        record=record,
        key=entry.key,
        made_by=made_by,
        nearest=nearest,
        differences=nearest.diff(entry.key) if nearest else (),
    )

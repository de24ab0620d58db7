"""Says why each step of a run was reused or computed, and what computed it, from the manifest and the store.

It decides nothing; all differences come from the keys themselves.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from restrike.errors import NotFound
from restrike.keys import Difference, Key
from restrike.store.store import Store
from restrike.workflow.runs import Manifest, StepRecord
from restrike.workflow.settling import versions_of


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One action: what became of it, its key, and how the nearest earlier key differed.

    `differences` lead from the nearest earlier key to this one; empty for a reused step, or when nothing of
    the operation was kept before.
    """

    record: StepRecord
    key: Key | None
    made_by: str
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
        if self.nearest is None:
            return f"{self.record.status}: nothing of this operation was kept before"
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


def explain(manifest: Manifest, store: Store) -> tuple[Explanation, ...]:
    """Explain every step of a run."""
    return tuple(_explained(record, store) for record in manifest.steps)


def _explained(record: StepRecord, store: Store) -> Explanation:
    try:
        entry = store.find(record.key) if record.key else None
    except NotFound:
        entry = None
    if entry is None:
        return Explanation(record=record, key=None, made_by=record.origin)
    made_by = versions_of(entry.origin)[0]
    if record.status == "reused":
        return Explanation(record=record, key=entry.key, made_by=made_by)
    nearest = store.nearest(entry.key, entry.label, before=entry.created)
    return Explanation(
        record=record,
        key=entry.key,
        made_by=made_by,
        nearest=nearest,
        differences=nearest.diff(entry.key) if nearest else (),
    )

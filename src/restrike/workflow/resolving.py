"""Resolves the references of a tree of plain values: to constants, to files, or to inputs from other steps.

What cannot be resolved is noted at its place, and stands as `NOTHING` so that all else is still checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from restrike.workflow import outcomes
from restrike.workflow.findings import Findings, Place, no_such
from restrike.workflow.graph import FileInput, Input
from restrike.workflow.outcomes import NOTHING, Outcome
from restrike.workflow.references import (
    Asset,
    Item,
    Member,
    Otherwise,
    Output,
    Reference,
    Result,
    StoredPrompt,
    Variable,
    parse,
)
from restrike.workflow.workspace_files import Absent, WorkspaceFiles


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The entry that a member of a `for_each` is made for: its name and its value."""

    name: str
    value: Any


@dataclass(frozen=True, kw_only=True)
class Resolver:
    """All that references of one step may mean."""

    files: WorkspaceFiles
    variables: Mapping[str, Any]
    steps: Mapping[str, Outcome]
    findings: Findings
    entry: Entry | None = None

    def resolve(self, tree: Any, place: Place) -> Any:
        """The tree with each reference replaced by what it means."""
        if isinstance(tree, str):
            return self._text(tree, place)
        if isinstance(tree, Mapping):
            return {name: self.resolve(value, (*place, name)) for name, value in tree.items()}
        if isinstance(tree, list):
            return [self.resolve(value, (*place, index)) for index, value in enumerate(tree)]
        return tree

    def constant(self, tree: Any, place: Place) -> Any:
        """The tree resolved, of which no part may come from a step or a file."""
        found = self.resolve(tree, place)
        if isinstance(found, Mapping):
            return {name: self._known(value, (*place, name)) for name, value in found.items()}
        return self._known(found, place)

    def _known(self, value: Any, place: Place) -> Any:
        if value is not NOTHING and has_leaves(value):
            self.findings.add(place, "is needed before anything runs; it cannot be a step's result or a file")
            return NOTHING
        return value

    def _text(self, text: str, place: Place) -> Any:
        try:
            reference = parse(text)
        except ValueError as error:
            self.findings.add(place, str(error))
            return NOTHING
        return reference if isinstance(reference, str) else self._meaning(reference, place)

    def _meaning(self, reference: Reference, place: Place) -> Any:
        match reference:
            case Variable():
                return self._named("variable", reference.name, self.variables, place)
            case Result():
                outcome = self._named("step", reference.step, self.steps, place)
                if outcome is NOTHING:
                    return NOTHING
                return outcomes.read(outcome, reference, place, self.findings)
            case Item() | Otherwise() | Member():
                return self._entry(reference, place)
            case Asset() | Output() | StoredPrompt():
                return self._stored(reference, place)

    def _named(self, kind: str, name: str, exists: Mapping[str, Any], place: Place) -> Any:
        if name not in exists:
            self.findings.unknown(place, kind, name, exists)
            return NOTHING
        return exists[name]

    def _stored(self, reference: Asset | Output | StoredPrompt, place: Place) -> Any:
        try:
            match reference:
                case Asset():
                    return self.files.asset(reference)
                case Output():
                    return self.files.output(reference)
                case StoredPrompt():
                    return self.files.prompt(reference)
        except Absent as error:
            self.findings.add(place, str(error))
            return NOTHING

    def _entry(self, reference: Item | Otherwise | Member, place: Place) -> Any:
        if self.entry is None:
            word = "$key" if isinstance(reference, Member) else "$item"
            self.findings.add(place, f"{word} means something only in a step with for_each")
            return NOTHING
        if isinstance(reference, Member):
            return self.entry.name
        value = self.entry.value
        if reference.field is None:
            return value
        if isinstance(value, Mapping) and reference.field in value:
            return value[reference.field]
        if isinstance(reference, Otherwise):
            default = reference.default
            return self._meaning(default, place) if isinstance(default, Reference) else default
        return self._field(value, reference.field, self.entry.name, place)

    def _field(self, value: Any, field: str, name: str, place: Place) -> Any:
        if value is NOTHING:
            return NOTHING
        if isinstance(value, Input) and value.field is None:
            return Input(action=value.action, item=value.item, field=field)
        fields = value if isinstance(value, Mapping) else ()
        hint = f"; give a default for entries without it: $item.{field} | DEFAULT" if fields else ""
        self.findings.add(place, no_such(f"field of entry '{name}'", field, fields) + hint)
        return NOTHING


def has_leaves(tree: Any) -> bool:
    """Whether any part of a resolved tree comes from a step or a file."""
    if isinstance(tree, Input | FileInput):
        return True
    if isinstance(tree, Mapping):
        return any(has_leaves(value) for value in tree.values())
    return isinstance(tree, list) and any(has_leaves(value) for value in tree)

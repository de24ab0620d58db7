"""A workflow as its author wrote it: from a file, a text or a program. It knows no values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from restrike.errors import typed
from restrike.workflow.definition import MAX_NAME, Definition
from restrike.workflow.findings import Findings
from restrike.workflow.loading import load_file, load_text, plain
from restrike.workflow.reading import Reading, read

UNNAMED = "workflow"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A workflow before it is expanded.

    `tree` is what was written, as plain values; `reading` what of it has the right form, None when nothing
    has; `file` is where it lies, if anywhere, and where the files that it names are looked for.
    """

    name: str
    tree: Mapping[str, Any]
    reading: Reading | None
    findings: Findings = field(default_factory=Findings, compare=False)
    file: Path | None = None

    @property
    def definition(self) -> Definition:
        """The definition; raises InvalidWorkflow when its form has a fault."""
        self.findings.check()
        assert self.reading is not None
        return self.reading.definition


def read_file(path: Path) -> Source:
    """The workflow of a YAML or JSON file.

    Raises:
        NotFound, Refused: there is none, or it cannot be read.
        InvalidWorkflow: it is no YAML or JSON. Faults of form are kept, and told together with all others.
    """
    tree = load_file(path)
    try:
        return _source(tree, _name_of(path), path.resolve())
    except OSError as error:
        raise typed(error) from error


def read_text(text: str, *, name: str = UNNAMED) -> Source:
    """The workflow of a text in YAML or JSON; raises InvalidWorkflow as `read_file`."""
    return _source(load_text(text), name, None)


def read_tree(tree: Mapping[str, Any], *, name: str = UNNAMED) -> Source:
    """The workflow of plain values that a program made; raises InvalidWorkflow as `read_file`."""
    return _source(plain(dict(tree)), name, None)


def _source(tree: dict[str, Any], name: str, file: Path | None) -> Source:
    findings = Findings()
    reading = read(tree, findings)
    own = reading.definition.name if reading else None
    return Source(name=own or name, tree=tree, reading=reading, findings=findings, file=file)


def _name_of(path: Path) -> str:
    """A name made of a file's, such as it may be written in references to the runs."""
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-")[:MAX_NAME]
    if not cleaned:
        return UNNAMED
    return cleaned if re.match(r"[A-Za-z_]", cleaned) else f"_{cleaned}"[:MAX_NAME]

"""The reference of all tasks, from their docstrings and types: `python -m restrike.workflow.tasks.reference`.

It prints Markdown, and says nothing that a task does not say itself.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from restrike.workflow.tasks import hints
from restrike.workflow.tasks.registry import Task, Tasks
from restrike.workflow.tasks.scorers import SCORERS

_SECTIONS = re.compile(r"^(Args|Returns|Example):\n", re.MULTILINE)
_ARGUMENT = re.compile(r"^(\w+): ", re.MULTILINE)
_FIELDS: Mapping[str, str] = {
    "picture": "Pictures",
    "colour": "Colour",
    "video": "Video",
    "sound": "Sound",
    "upscale": "Upscaling",
    "control": "Control images",
    "judge": "Scores",
    "select": "Choice",
    "text": "Text",
    "number": "Numbers",
    "list": "Lists",
}
_OPENING = """# Tasks

<!-- Written by `python -m restrike.workflow.tasks.reference`; change the docstrings, not this file. -->

A step calls a task by name with `task:`. All tasks below are pure functions: equal arguments give equal
bytes, so their results are reused. A picture is a clip of one frame; most tasks take either. Arguments
are checked before anything runs, and sizes and lengths beyond the stated limits are refused.

Some need a library that only they use: `pip install 'restrike[tasks]'` brings OpenCV (edges, optical
flow), segno (QR codes) and ncnn (networks). A task whose library is missing says so in one line.

Saving and loading are no tasks: a step's `result` saves its value, and `$asset.PATH` or
`$output.WORKFLOW/RUN/FILE` reads a file. Depth, pose and segmentation are not here either, for they need
models of their own; run those as `pipeline` steps.

A task of your own is a function in a file that you allow with `--allow-code FILE`:

```python run
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip


@task("mine.first_half", epoch="1")
def first_half(clip: Clip) -> Clip:
    \"\"\"The first half of a clip, without its sound.\"\"\"
    return Clip(frames_THWC=clip.frames_THWC[: len(clip.frames_THWC) // 2], fps=clip.fps)
```
"""


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a docstring says: `about` after the summary, each argument, an example step in YAML."""

    about: str
    arguments: Mapping[str, str]
    returns: str
    example: str


def described(task: Task) -> Description:
    """The parts of a task's docstring."""
    pieces = _SECTIONS.split(inspect.getdoc(task.function) or "")
    sections = {name: textwrap.dedent(text) for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}
    names = _ARGUMENT.split(sections.get("Args", ""))
    return Description(
        about=_line(pieces[0].partition("\n")[2]),
        arguments={name: _line(text) for name, text in zip(names[1::2], names[2::2], strict=True)},
        returns=_line(sections.get("Returns", "")),
        example=sections.get("Example", "").strip(),
    )


def page(tasks: Tasks) -> str:
    """The whole reference in Markdown."""
    parts = [_OPENING]
    for field, title in _FIELDS.items():
        parts.append(f"## {title}\n")
        parts += [_entry(tasks.get(name)) for name in tasks.names() if name.partition(".")[0] == field]
        if field == "judge":
            parts.append(_scorers())
    return "\n".join(parts)


def _entry(task: Task) -> str:
    said = described(task)
    lines = [f"### `{task.name}`\n", f"{task.summary} {said.about}".rstrip() + "\n"]
    lines += ["| argument | takes | default | |", "|---|---|---|---|"]
    defaults = task.defaults()
    for name in task.parameters():
        default = _shown(defaults[name]) if name in defaults else "required"
        takes = hints.words(task.hint(name)).replace("|", "\\|")
        lines.append(f"| `{name}` | {takes} | {default} | {said.arguments.get(name, '')} |")
    lines.append(f"\nReturns {hints.words(task.returns)}. {said.returns}\n")
    lines.append(f"```yaml\n{said.example}\n```\n")
    return "\n".join(lines)


def _scorers() -> str:
    lines = ["### Scorers\n", "| scorer | measures | needs |", "|---|---|---|"]
    for name, scorer in SCORERS.items():
        needs = "" if scorer.needs == "nothing" else f"`{scorer.needs}`"
        lines.append(f"| `{name}` | {scorer.summary} | {needs} |")
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    # As it is written in the file; text stands plain where that can be seen.
    plain = isinstance(value, str) and value.strip() and value.isprintable()
    return f"`{value if plain else json.dumps(value)}`"


def _line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.stdout.write(page(Tasks()))

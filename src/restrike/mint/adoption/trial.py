"""Runs a cell once in a process of its own, before any process that serves loads it.

`python -m restrike.mint.adoption.trial FILE` is that process. It needs no model: the weights are memory of
the right size, and what matters is whether the code loads, binds and returns.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from restrike.errors import RULES, Cancelled, RestrikeError, Shortfall, rule_of, typed
from restrike.mint.adoption.refusal import AdoptionRefusal, AdoptionRefused
from restrike.mint.cell.facts import Ingress, Kind, bounds
from restrike.mint.cell.manifest import ConstantSpec, Manifest
from restrike.mint.shortfalls import placed
from restrike.store.files import write_file

LONGEST_S = 300
"""After so long a trial counts as one that never ends."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """The unpacked cell, what it says of its call and constants, and the file for what is wrong with it."""

    members: str
    kind: Kind
    ingress: Ingress
    constants: tuple[ConstantSpec, ...]
    answer: str


_QUESTION = TypeAdapter(Question)


def tried(members: Path, kind: Kind, manifest: Manifest, scratch: Path) -> None:
    """Run a verified and unpacked cell in a child; returns when it ran.

    Raises:
        AdoptionRefused: it killed its process, raised, or never ended; or no process could be started.
        Shortfall: there was no memory for it.
        Cancelled: its process was ended by somebody else.
    """
    answer = scratch / "answer.txt"
    facts = manifest.facts
    question = Question(
        members=str(members),
        kind=kind,
        ingress=facts.ingress,
        constants=facts.constants,
        answer=str(answer),
    )
    file = scratch / "question.json"
    write_file(file, _QUESTION.dump_json(question))
    command = [sys.executable, "-P", "-m", "restrike.mint.adoption.trial", str(file)]
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError as error:
        failure = typed(error)
        if isinstance(failure, Shortfall):
            raise failure from error
        raise AdoptionRefused(AdoptionRefusal.NOT_TRIED, failure.message) from error
    if done.returncode == 0:
        return
    if done.returncode < 0:
        raise _death(signal.Signals(-done.returncode))
    told = answer.read_text() if answer.exists() else f"its process left with {done.returncode}"
    if done.returncode == RULES[Shortfall].exit_code:
        raise Shortfall(told)
    raise AdoptionRefused(AdoptionRefusal.FAILED_WHEN_TRIED, told)


def _death(by: signal.Signals) -> RestrikeError:
    """What a trial's death by a signal says; some signals are not the code's own doing."""
    if by == signal.SIGKILL:
        return Shortfall("its trial was killed, as happens where memory runs out")
    if by in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        return Cancelled("its trial was ended from outside")
    return AdoptionRefused(AdoptionRefusal.DIED_WHEN_TRIED, f"its process was killed by {by.name}")


def main(file: Path) -> int:
    """Answer the question in a file."""
    # By the system and not by Python, which would wait for the code to return.
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    question = _QUESTION.validate_json(file.read_bytes())
    try:
        _run(question)
    except Exception as error:
        failure = placed(error)
        write_file(Path(question.answer), failure.message[:400].encode())
        return rule_of(failure).exit_code
    return 0


def _run(question: Question) -> None:
    import torch

    from restrike.mint.recipes import aot
    from restrike.mint.refusals import Subject

    device = torch.device(question.kind)
    package = aot.opened(Path(question.members), device)
    constants = {
        spec.name: torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype), device=device)
        for spec in question.constants
    }
    aot.bind(package, constants, Subject(card="a trial", recipe="aot"))
    run = aot.callable_of(package, tuple(spec.name for spec in question.ingress.tensors))
    inputs = {
        spec.name: torch.zeros(
            [bounds(size)[1] for size in spec.shape], dtype=getattr(torch, spec.dtype), device=device
        )
        for spec in question.ingress.tensors
    }
    with torch.inference_mode():
        run(inputs)
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""Proves a compiled call where it was not made: a fresh interpreter must find nothing left to compile.

`python -m restrike.mint.second_process FILE` is that interpreter; it answers by a file and an exit code.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from restrike.errors import Crashed, RestrikeError
from restrike.mint.cell.manifest import Proof
from restrike.mint.environment import child_environment
from restrike.mint.outcome import Outcome, error_of, outcome_of
from restrike.mint.request import MintRequest, read_request
from restrike.mint.targets import compiler
from restrike.store.files import write_file

if TYPE_CHECKING:
    from torch import nn

    from restrike.mint.preparing import Ready
    from restrike.mint.warm import Observed


@dataclass(frozen=True, kw_only=True)
class Question:
    """Which entry of which request to prove, and the file for the answer.

    `members` is the folder with its files; None discovers its cell in the store, by its key.
    """

    request: str
    entry: str
    members: str | None
    scratch: str

    @property
    def answer(self) -> Path:
        """Where the answer goes."""
        return Path(self.scratch) / "proof.json"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The proof, or the outcome and the line of what went wrong."""

    proof: Proof | None
    outcome: Outcome
    message: str = ""


HERE = "restrike.mint.second_process"
_QUESTION, _ANSWER = TypeAdapter(Question), TypeAdapter(Answer)


def prove_in_second_process(request: MintRequest, entry: str, folder: Path, scratch: Path) -> Proof:
    """Prove the members in a folder in a fresh process with a cache of its own.

    Raises:
        Crashed: it died, or something was compiled there.
        RestrikeError: what it raised, in the same class.
    """
    return asked(HERE, request, entry, str(folder), scratch / "second")


def adopt_in_second_process(request: MintRequest, entry: str, scratch: Path) -> Proof:
    """Discover an entry's cell by its key, verify, load and prove it in a fresh process; raises the same."""
    return asked(HERE, request, entry, None, scratch)


def asked(module: str, request: MintRequest, entry: str, members: str | None, scratch: Path) -> Proof:
    """What a module that answers such questions says in a fresh process; raises as those above."""
    scratch.mkdir(parents=True, exist_ok=True)
    (Path(request.scratch) / "tmp").mkdir(parents=True, exist_ok=True)
    question = Question(request=str(request.file), entry=entry, members=members, scratch=str(scratch))
    file = scratch / "question.json"
    write_file(file, _QUESTION.dump_json(question))
    environment = child_environment(
        os.environ, scratch=scratch, threads=request.budget.threads, compiler=compiler(os.environ)
    )
    # Its cache is its own; headers that torch compiled in advance lie in no cache but here, and it would
    # compile them anew for a bundle of which nothing else is compiled.
    environment["TMPDIR"] = str(Path(request.scratch) / "tmp")
    command = [sys.executable, "-P", "-m", module, str(file)]
    done = subprocess.run(command, env=environment, check=False, stdin=subprocess.DEVNULL)
    try:
        answer = _ANSWER.validate_json(question.answer.read_bytes())
    except (OSError, ValueError) as error:
        raise Crashed(f"the second process ended with {done.returncode} and proved nothing") from error
    if answer.proof is None:
        raise error_of(answer.outcome, answer.message)
    return answer.proof


def answered(file: Path, prove: Callable[[Question], Proof]) -> None:
    """Answer the question in a file."""
    question = _QUESTION.validate_json(file.read_bytes())
    try:
        answer = Answer(proof=prove(question), outcome=Outcome.OK)
    except RestrikeError as error:
        answer = Answer(proof=None, outcome=outcome_of(error), message=error.message)
    write_file(question.answer, _ANSWER.dump_json(answer))


def _proof(question: Question) -> Proof:
    from restrike.mint.preparing import prepare
    from restrike.mint.proving import prove
    from restrike.mint.recipe import load
    from restrike.mint.recipes.counting import require_nothing_compiled

    request = read_request(Path(question.request))
    ready = prepare(request)
    with ready.resident.turn:
        seen = next(each for each in ready.observe() if each.name == question.entry)
        component = ready.resident.component(seen.target.component)
        with _members(question, request, ready, component, seen) as members:
            run = load(request.recipe, members, component, seen, ready.options, ready.subject)
            proof = prove(run, component, seen, ready.tolerance, ready.subject)
            require_nothing_compiled(request.recipe, members)
    return proof


def _members(
    question: Question, request: MintRequest, ready: Ready, component: nn.Module, seen: Observed
) -> AbstractContextManager[Path]:
    if question.members is not None:
        return nullcontext(Path(question.members))
    return _discovered(request, ready, component, seen, Path(question.scratch))


@contextmanager
def _discovered(
    request: MintRequest, ready: Ready, component: nn.Module, seen: Observed, scratch: Path
) -> Iterator[Path]:
    """The verified members of the cell whose key this process makes itself."""
    from restrike.mint.cell.host import this_host
    from restrike.mint.graph import graph_digest, trace
    from restrike.mint.landing import key_of
    from restrike.mint.store.store import CellStore

    program = trace(component, seen, ready.subject)
    key = key_of(
        graph_digest(program),
        seen.ingress,
        recipe=request.recipe,
        target=request.target,
        options=ready.options,
    )
    with CellStore(Path(request.store)).open(key.digest, this_host(request.target)) as cell:
        folder = scratch / "members"
        cell.unpack(folder)
        yield folder


if __name__ == "__main__":
    answered(Path(sys.argv[1]), _proof)

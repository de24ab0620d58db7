"""Proves a bundle where it was not made: a fresh interpreter loads it and must find nothing left to compile.

`python -m restrike.mint.second_process FILE` is that interpreter; it answers by a file and an exit code.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from restrike.errors import Crashed, RestrikeError
from restrike.mint.cell.manifest import Proof
from restrike.mint.outcome import Outcome, error_of, outcome_of
from restrike.mint.request import MintRequest, read_request
from restrike.store.files import write_file


@dataclass(frozen=True, kw_only=True)
class Question:
    """Which entry of which request to prove, the folder with its members, and the file for the answer."""

    request: str
    entry: str
    members: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The proof, or the outcome and the line of what went wrong."""

    proof: Proof | None
    outcome: Outcome
    message: str = ""


_QUESTION, _ANSWER = TypeAdapter(Question), TypeAdapter(Answer)


def prove_in_second_process(request: MintRequest, entry: str, folder: Path, scratch: Path) -> Proof:
    """Run the proof in a fresh process with a cache of its own.

    Raises:
        Crashed: it died, or something was compiled there.
        RestrikeError: what it raised, in the same class.
    """
    question = Question(
        request=str(request.file), entry=entry, members=str(folder), answer=str(scratch / "proof.json")
    )
    file = scratch / "question.json"
    write_file(file, _QUESTION.dump_json(question))
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(scratch / "second")}
    command = [sys.executable, "-m", "restrike.mint.second_process", str(file)]
    done = subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)
    try:
        answer = _ANSWER.validate_json(Path(question.answer).read_bytes())
    except (OSError, ValueError) as error:
        raise Crashed(f"the second process ended with {done.returncode} and proved nothing") from error
    if answer.proof is None:
        raise error_of(answer.outcome, answer.message)
    return answer.proof


def main(file: Path) -> None:
    """Answer the question in a file."""
    question = _QUESTION.validate_json(file.read_bytes())
    try:
        answer = Answer(proof=_proof(question), outcome=Outcome.OK)
    except RestrikeError as error:
        answer = Answer(proof=None, outcome=outcome_of(error), message=error.message)
    write_file(Path(question.answer), _ANSWER.dump_json(answer))


def _proof(question: Question) -> Proof:
    from restrike.mint.preparing import prepare
    from restrike.mint.proving import prove
    from restrike.mint.recipe import load
    from restrike.mint.recipes.dynamo import compilations

    request = read_request(Path(question.request))
    ready = prepare(request)
    with ready.resident.turn:
        seen = next(each for each in ready.observe() if each.name == question.entry)
        component = ready.resident.component(seen.target.component)
        subject = request.subject
        run = load(request.recipe, Path(question.members), component, seen, ready.options, subject)
        proof = prove(run, component, seen, ready.tolerance, subject)
    made = compilations(Path(question.members))
    if made.graphs or made.libraries or not made.hits:
        raise Crashed(
            f"the bundle left {made.graphs} graphs and {made.libraries} libraries to compile; "
            f"{made.hits} graphs were taken from it"
        )
    return proof


if __name__ == "__main__":
    main(Path(sys.argv[1]))

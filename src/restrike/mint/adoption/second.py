"""Serves from a cell where it was not made: a fresh interpreter adopts it and makes a picture with it.

`python -m restrike.mint.adoption.second FILE` is that interpreter; see `mint.second_process`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from restrike.errors import Crashed, Refused
from restrike.mint.cell.manifest import Proof
from restrike.mint.plan import warm_plan
from restrike.mint.request import MintRequest, read_request
from restrike.mint.second_process import Question, answered, asked


def serve_in_second_process(request: MintRequest, entry: str, scratch: Path) -> Proof:
    """Load the card of a mint in a fresh process, adopt an entry's cell and make a picture with it.

    Raises:
        Refused: the cell was not armed.
        Crashed: no forward of the picture ran compiled, something was compiled, or the process died.
        RestrikeError: what it raised, in the same class.
    """
    return asked("restrike.mint.adoption.second", request, entry, None, scratch)


def _served(question: Question) -> Proof:
    from restrike.engine.engine import Engine
    from restrike.mint.adoption.cells import Cells
    from restrike.mint.recipes.counting import compilations
    from restrike.mint.store.store import CellStore

    request = read_request(Path(question.request))
    card = request.slot.card()
    cells = Cells(CellStore(Path(request.store)), asked=True)
    engine = Engine(device=request.target.kind, precision=request.precision, cells=cells)
    adopted = cells.adopted(engine.load(card))
    if adopted is None or question.entry not in adopted.armed:
        told = "; ".join(engine.load(card).compiled.told()) or "no cell of it was found"
        raise Refused(f"'{question.entry}' was not armed: {told}")
    for row in warm_plan(card, request.subject, request.shapes):
        made = engine.generate(card, row.request).compiled
        if not made.executed or made.eager:
            raise Crashed(f"'{row.shape.name}' ran {made.executed} forwards compiled, eager: {made.eager}")
    found = compilations(None)
    if found.graphs or (request.recipe == "aot" and found.libraries):
        raise Crashed(f"{found.graphs} graphs and {found.libraries} libraries were compiled anew")
    return adopted.armed[question.entry]


if __name__ == "__main__":
    answered(Path(sys.argv[1]), _served)

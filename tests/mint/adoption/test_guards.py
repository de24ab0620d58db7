"""What adoption holds against a cell before it may serve, one guard at a time and without a model."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mint.cells import HOST, Making
from restrike.engine.engine import Engine
from restrike.mint.adoption import adoption, binding, tried
from restrike.mint.adoption.adoption import Adoption, _Candidate
from restrike.mint.adoption.cells import Cells
from restrike.mint.adoption.discovery import Place
from restrike.mint.adoption.refusal import AdoptionRefusal, AdoptionRefused
from restrike.mint.adoption.tried import Tried
from restrike.mint.cell.facts import Ingress
from restrike.mint.cell.host import cpu_target, this_host
from restrike.mint.cell.manifest import ConstantSpec, ManifestFacts
from restrike.mint.recipes import aot
from restrike.mint.recipes.counting import Compilations
from restrike.mint.store.store import CellStore

from . import forging
from .forging import forged, key_in, twin

Adopting = Callable[..., Engine]


class Wanted:
    """Stands for a declared call by a recipe."""

    def __init__(self, recipe: str) -> None:
        self.recipe = recipe
        self.options: dict[str, Any] = {}
        self.target: Any = None


def test_a_bundle_that_was_made_elsewhere_is_not_even_tried(
    store: CellStore, sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.publish(sealed)
    (cell,) = store.cells()
    trials: list[Path] = []
    monkeypatch.setattr(adoption, "tried", lambda members, *given: trials.append(members))
    adopts = Adoption(resident=None, place=Place(store=store, tier=None, host=HOST))  # pyright: ignore[reportArgumentType]
    with pytest.raises(AdoptionRefused) as caught:
        adopts._try(_Candidate(wanted=Wanted("dynamo"), key=cell.key))  # pyright: ignore[reportArgumentType]
    assert caught.value.reason is AdoptionRefusal.MADE_ELSEWHERE
    assert not trials
    # The controls: a package is tried, and what ran here need not be.
    adopts._try(_Candidate(wanted=Wanted("aot"), key=cell.key))  # pyright: ignore[reportArgumentType]
    assert len(trials) == 1
    adopts._try(_Candidate(wanted=Wanted("dynamo"), key=cell.key))  # pyright: ignore[reportArgumentType]
    assert len(trials) == 1


@pytest.mark.parametrize(
    ("after", "is_refused"),
    [
        (Compilations(hits=2, graphs=0, libraries=0), False),
        (Compilations(hits=2, graphs=1, libraries=0), True),
        (Compilations(hits=2, graphs=0, libraries=1), True),
        (Compilations(hits=1, graphs=0, libraries=0), True),
    ],
)
def test_a_bundle_that_left_anything_to_compile_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, after: Compilations, is_refused: bool
) -> None:
    counts = iter((Compilations(hits=1, graphs=0, libraries=0), after))
    run = object()
    monkeypatch.setattr(binding, "compilations", lambda members: next(counts))
    monkeypatch.setattr(binding.dynamo, "load", lambda *given: lambda inputs: run)

    class Seen:
        call, ingress = None, None
        shape = type("Shape", (), {"batches": (1, 1)})

        def probe(self, batch: int) -> dict[str, torch.Tensor]:
            return {}

    given: tuple[Any, ...] = (tmp_path, Wanted("dynamo"), Seen(), nn.Identity())
    if is_refused:
        with pytest.raises(AdoptionRefused) as caught:
            binding._bundle(*given)
        assert caught.value.reason is AdoptionRefusal.COMPILED_ANEW
    else:
        assert binding._bundle(*given)({}) is run


def test_weights_on_two_devices_are_bound_to_nothing() -> None:
    spec = ConstantSpec(name="a", shape=(2,), dtype="float32")
    with pytest.raises(AdoptionRefused, match="weights are on cpu and meta") as caught:
        binding.check_constants({"a": spec}, {"a": torch.ones(2), "b": torch.ones(2, device="meta")})
    assert caught.value.reason is AdoptionRefusal.OTHER_CONSTANT
    binding.check_constants({"a": spec}, {"a": torch.ones(2), "b": torch.ones(2)})


_ENDLESS = """
import sys, time
from pathlib import Path
from restrike.mint.adoption import trial
trial.LONGEST_S = 0.3
trial._run = lambda question: time.sleep(60)
trial.main(Path(sys.argv[1]))
"""


def test_a_trial_that_never_ends_is_ended_by_the_system(tmp_path: Path) -> None:
    question = tmp_path / "question.json"
    asked = {"members": "", "kind": "cpu", "ingress": {"tensors": []}, "constants": [], "answer": ""}
    question.write_text(json.dumps(asked))
    done = subprocess.run([sys.executable, "-c", _ENDLESS, str(question)], timeout=50, check=False)
    assert done.returncode == -signal.SIGALRM


def test_a_cell_has_been_tried_on_the_machine_on_which_it_was_and_to_its_last_byte(
    store: CellStore, sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.publish(sealed)
    (cell,) = store.cells()
    assert cell.header is not None
    record = Tried(store.root)
    assert not record.has(cell.header)
    record.note(cell.header)
    assert record.has(cell.header)
    other = Making(members={"graph.cpp": b"other"}).sealed(tmp_path / "other.cell", store.ring.signer())
    elsewhere = CellStore(tmp_path / "elsewhere")
    elsewhere.ring.trust(store.ring.signer().public, "here")
    elsewhere.publish(other)
    (twin,) = elsewhere.cells()
    assert twin.header is not None
    assert twin.key == cell.key
    assert not record.has(twin.header)
    monkeypatch.setattr(tried, "_machine", lambda: "f" * 16)
    assert not record.has(cell.header)


def test_what_is_armed_already_is_not_bound_again_when_more_has_landed(
    kept: CellStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = Cells(kept, asked=True)
    resident = Engine(device="cpu", cells=cells).load("digits")
    assert resident.compiled.counters.armed == 1
    monkeypatch.setattr(Adoption, "_proved", lambda *given: pytest.fail("it was bound again"))
    cells.again(resident)
    assert (resident.compiled.counters.armed, resident.compiled.counters.refused) == (1, {})


def test_a_cell_is_proved_in_the_turn_of_the_device(
    kept: CellStore, adopting: Adopting, monkeypatch: pytest.MonkeyPatch
) -> None:
    prove, turns, held = adoption.prove, list[Any](), list[bool]()
    proved = Adoption._proved

    def noted(self: Adoption, *given: Any) -> Any:
        turns.append(self.resident.turn)
        return proved(self, *given)

    def watched(*given: Any) -> Any:
        held.append(turns[-1].lock._is_owned())
        return replace(prove(*given), eager_s=2.0, cell_s=1.0)

    monkeypatch.setattr(Adoption, "_proved", noted)
    monkeypatch.setattr(adoption, "prove", watched)
    adopting(kept)
    assert held == [True]
    assert not turns[-1].lock._is_owned()


def test_code_around_a_module_is_the_reason_by_its_own_name(kept: CellStore) -> None:
    resident = Engine(device="cpu").load("digits")
    with resident.turn:
        part = next(resident.component("transformer").children())
    hook = part.register_forward_hook(lambda *call: None)
    place = Place(store=kept, tier=None, host=this_host(cpu_target()))
    found = Adoption(resident=resident, place=place).adopt()
    assert [reason for _, reason in found.refused] == ["code of its own runs around the module"]
    hook.remove()
    assert not Adoption(resident=resident, place=place).adopt().refused


def of_other_tensors(facts: ManifestFacts) -> ManifestFacts:
    first, *rest = facts.ingress.tensors
    renamed = (replace(first, name="another"), *rest)
    return replace(facts, ingress=Ingress(tensors=tuple(sorted(renamed, key=lambda each: each.name))))


@pytest.mark.parametrize(
    ("facts", "could_be"),
    [(forging.unchanged, True), (of_other_tensors, False), (forging.with_other_form, False)],
)
def test_a_cell_could_be_a_calls_only_if_it_takes_its_tensors_and_its_weights(
    kept: CellStore, tmp_path: Path, facts: forging.Facts, could_be: bool
) -> None:
    store = forged(kept, tmp_path / "forged", facts=facts)
    resident = Engine(device="cpu").load("digits")
    assert resident.card.compile is not None
    wanted = Wanted("aot")
    wanted.target = resident.card.compile.targets[0]
    place = Place(store=store, tier=None, host=this_host(cpu_target()))
    adopts = Adoption(resident=resident, place=place)
    assert adopts._could_be(key_in(store), wanted) is could_be  # pyright: ignore[reportArgumentType]


def test_memory_that_runs_out_while_a_cell_is_bound_is_no_fault_of_the_cell(
    kept: CellStore, adopting: Adopting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*given: Any) -> Any:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    store = twin(kept, tmp_path / "moved")
    monkeypatch.setattr(Adoption, "_proved", exhausted)
    assert adopting(store).load("digits").compiled.counters.refused == {"no room": 1}
    assert store.has(key_in(kept))


def test_code_is_given_its_tensors_dense_and_on_a_boundary_and_those_that_are_so_uncopied() -> None:
    plain = torch.arange(24.0).view(2, 3, 4)
    askew = torch.empty(25)[1:].view(2, 3, 4).copy_(plain)
    across = plain.transpose(1, 2).contiguous().transpose(1, 2)
    assert askew.data_ptr() % 16
    for value in (askew, across):
        given = aot._as_traced(value)
        assert given.is_contiguous()
        assert given.data_ptr() % 16 == 0
        assert torch.equal(given, plain)
    assert aot._as_traced(plain).data_ptr() == plain.data_ptr()

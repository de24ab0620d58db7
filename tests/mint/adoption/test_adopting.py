"""A cell in the engine: found, armed, used where it fits, told where it does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.driving import bytes_of
from mint.cells import Making
from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Folder
from restrike.engine.compiled.table import Answered
from restrike.engine.engine import Engine
from restrike.errors import Refused
from restrike.loops.contract import StepPlan
from restrike.media.provenance import parse
from restrike.mint.adoption import adoption
from restrike.mint.adoption.cells import Cells
from restrike.mint.adoption.signposts import Signposts, sizes_key
from restrike.mint.cell.host import cpu_target, this_host
from restrike.mint.store.store import CellStore

from .conftest import NONE, SEVEN
from .forging import key_in, twin

Adopting = Callable[..., Engine]


def test_a_cell_answers_and_the_picture_is_eagers_within_tolerance_and_says_what_made_it(
    kept: CellStore, adopting: Adopting, eager: Engine
) -> None:
    engine = adopting(kept)
    made, plain = engine.generate("digits", SEVEN), eager.generate("digits", SEVEN)
    assert made.picture.latent is not None
    assert plain.picture.latent is not None
    assert torch.allclose(made.picture.latent, plain.picture.latent, atol=1e-4)
    key = key_in(kept).hex
    assert (made.compiled.cells, made.compiled.executed, made.compiled.eager) == ({key: 4}, 4, {})
    assert made.picture.provenance.cells == (key,)
    assert parse(made.picture.provenance.to_json()) == made.picture.provenance
    assert made.notices == ()
    assert plain.picture.provenance.cells == ()
    assert "cells" not in plain.picture.provenance.to_json()


def test_a_size_that_was_not_compiled_is_served_eagerly_bit_for_bit_and_its_gap_is_told_once(
    kept: CellStore, adopting: Adopting, eager: Engine
) -> None:
    engine = adopting(kept)
    made = engine.generate("digits", NONE)
    gap = "axis 0 of 'latent' is 1, compiled for 2"
    assert (made.compiled.cells, made.picture.provenance.cells) == ({}, ())
    assert made.compiled.eager == {gap: 4}
    assert made.notices == (f"cells answered 0 of 4 forwards; eager: {gap} (4)",)
    assert engine.generate("digits", NONE).notices == ()
    assert bytes_of(engine, NONE) == bytes_of(eager, NONE)
    counters = engine.load("digits").compiled.counters
    assert (counters.armed, counters.executed, counters.eager) == (1, 0, {gap: 12})


def test_a_missing_shape_class_is_told_with_what_was_found(kept: CellStore) -> None:
    cells = Cells(kept, asked=True)
    found = cells.adopted(Engine(device="cpu", cells=cells).load("digits"))
    assert found is not None
    assert list(found.armed) == ["transformer 8x8-batched"]
    assert [wanted.label for wanted in found.missing] == ["transformer 8x8-none"]
    assert (found.refused, found.rejected) == ((), {})


def test_a_size_that_was_minted_beside_the_declared_ones_is_looked_for(
    kept: CellStore, adopting: Adopting, tmp_path: Path
) -> None:
    store = twin(kept, tmp_path / "more")
    resident = adopting(store).load("digits")
    Signposts(store.root).add_size(sizes_key(resident, cpu_target()), "8x8-cfg")
    cells = Cells(store, asked=True)
    found = cells.adopted(Engine(device="cpu", cells=cells).load("digits"))
    assert found is not None
    assert [wanted.label for wanted in found.missing] == ["transformer 8x8-none", "transformer 8x8-cfg"]


def test_what_must_run_compiled_is_refused_where_it_does_not_fit(kept: CellStore, adopting: Adopting) -> None:
    engine = adopting(kept, mode="require")
    assert engine.generate("digits", SEVEN).compiled.executed == 4
    with pytest.raises(Refused, match=r"must run compiled, and cannot: axis 0 .*; restrike mint digits"):
        engine.generate("digits", NONE)
    with pytest.raises(Refused, match="the request is exact"):
        engine.generate("digits", replace(SEVEN, exact=True))


def test_a_card_without_cells_that_must_run_compiled_does_not_load(
    store: CellStore, adopting: Adopting
) -> None:
    with pytest.raises(Refused, match="no cell of it is here; restrike mint digits"):
        adopting(store, mode="require")


def test_an_exact_request_runs_none(kept: CellStore, adopting: Adopting, eager: Engine) -> None:
    exact = replace(SEVEN, exact=True)
    engine = adopting(kept)
    assert engine.generate("digits", exact).compiled.eager == {"the request is exact": 4}
    assert bytes_of(engine, exact) == bytes_of(eager, exact)


def test_two_cards_of_one_architecture_share_a_cell_and_each_gives_its_own_picture(
    kept: CellStore, eager: Engine, tmp_path: Path
) -> None:
    cards = ("digits", _retrained(tmp_path))
    engine = Engine(device="cpu", cells=Cells(kept, asked=True))
    latents = []
    for card in cards:
        made, plain = engine.generate(card, SEVEN), eager.generate(card, SEVEN)
        assert made.compiled.cells == {key_in(kept).hex: 4}
        assert made.picture.latent is not None
        assert plain.picture.latent is not None
        assert torch.allclose(made.picture.latent, plain.picture.latent, atol=1e-3)
        latents.append(made.picture.latent)
    assert not torch.allclose(*latents, atol=1e-1)


def _retrained(folder: Path) -> ModelCard:
    """The digits with other weights, as a card of its own."""
    from safetensors.torch import load_file, save_file

    card = registry.find("digits")
    assert card.location is not None
    source = card.location.resolve(("*",)).root
    for name in ("config.json", "text_encoder.safetensors", "decoder.safetensors"):
        (folder / name).write_bytes((source / name).read_bytes())
    generator = torch.Generator().manual_seed(0)
    weights = load_file(source / "transformer.safetensors")
    changed = {name: w + 0.05 * torch.randn(w.shape, generator=generator) for name, w in weights.items()}
    save_file(changed, folder / "transformer.safetensors")
    return replace(card, location=Folder(folder))


_SECOND_PROCESS = """
import sys
from dataclasses import replace
from pathlib import Path
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.mint.adoption import adoption
from restrike.mint.adoption.cells import Cells
from restrike.mint.recipes.counting import compilations
from restrike.mint.store.store import CellStore

# What a busy machine measures is no matter of this test.
timed = adoption.prove
adoption.prove = lambda *given: replace(timed(*given), eager_s=2.0, cell_s=1.0)
engine = Engine(device="cpu", cells=Cells(CellStore(Path(sys.argv[1])), mode="require"))
made = engine.generate("digits", Request(prompt="a seven", seed=3, steps=4))
assert made.compiled.executed == 4 and not made.compiled.eager
found = compilations(None)
assert (found.graphs, found.libraries) == (0, 0), found
assert "torch._inductor" not in sys.modules and "torch._dynamo" not in sys.modules
"""


def test_a_second_process_adopts_without_a_compiler_and_compiles_nothing(kept: CellStore) -> None:
    environment = {"PATH": "/nonexistent", "CXX": "/nonexistent/g++", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", _SECOND_PROCESS, str(kept.root)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_signposts_the_calls_are_traced_and_the_signposts_put_up_again(
    kept: CellStore, adopting: Adopting, tmp_path: Path
) -> None:
    store = twin(kept, tmp_path / "moved", signposts=False)
    engine = adopting(store)
    assert engine.load("digits").compiled.counters.armed == 1
    assert list((store.root / "signposts").glob("*.json"))


def test_no_call_is_traced_for_cells_that_are_another_models(
    kept: CellStore, adopting: Adopting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = cpu_target()
    store = CellStore(tmp_path / "others")
    making = Making(target=target, stack=this_host(target).stack("aot"))
    store.publish(making.sealed(tmp_path / "other.cell", store.ring.signer()))
    monkeypatch.setattr(adoption, "find_by_tracing", lambda *given: pytest.fail("a call was traced"))
    assert adopting(store).load("digits").compiled.counters.refused == {}
    # The control: its own cell, of which no signpost tells, is looked for.
    with pytest.raises(pytest.fail.Exception):
        adopting(twin(kept, tmp_path / "own", signposts=False))


def test_numbers_of_another_kind_and_tensors_that_lie_askew_are_answered_alike(
    kept: CellStore, adopting: Adopting
) -> None:
    resident = adopting(kept).load("digits")
    (call,) = resident.compiled.armed
    generator = torch.Generator().manual_seed(0)
    inputs = {
        spec.name: torch.randn([low for low, _ in spec.sizes], generator=generator) for spec in call.inputs
    }
    inputs["timestep"] = torch.tensor([500.0, 500.0])
    model = resident.loop(resident.card.loops[0]).model
    plan = StepPlan(
        index=0,
        total=1,
        sigma=1.0,
        component="transformer",
        structure=(),
        inputs=inputs,
        call=model.denoise,
        compute=lambda forward, given: {},
    )

    def answer(**changed: torch.Tensor) -> torch.Tensor:
        with resident.turn, torch.inference_mode():
            module = resident.component("transformer")
            found = resident.compiled.answer((call,), plan, module, {**inputs, **changed})
        assert isinstance(found, Answered), found
        return found.output

    askew = torch.empty(inputs["latent"].numel() + 1)[1:].view_as(inputs["latent"]).copy_(inputs["latent"])
    across = inputs["latent"].transpose(2, 3).contiguous().transpose(2, 3)
    plain = answer()
    assert torch.equal(answer(latent=askew), plain)
    assert torch.equal(answer(latent=across), plain)
    assert torch.equal(answer(timestep=torch.tensor([500, 500])), plain)


def test_a_signpost_that_leads_astray_is_mended_and_the_cell_it_led_to_stays(
    kept: CellStore, adopting: Adopting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, key = twin(kept, tmp_path / "moved"), key_in(kept)
    # Every call of the card, whatever its shape, is said to be this cell.
    monkeypatch.setattr(Signposts, "read", lambda signs, sign: (key,))
    engine = adopting(store)
    assert engine.load("digits").compiled.counters.refused == {"other ingress": 1}
    assert engine.generate("digits", SEVEN).compiled.executed == 4
    assert store.has(key)


def test_steps_that_run_as_one_are_answered_for_their_own_size_or_eagerly(
    kept: CellStore, eager: Engine
) -> None:
    engine = Engine(device="cpu", batch_limit=2, cells=Cells(kept, asked=True))
    pair = replace(SEVEN, items=(0, 1))
    made = engine.generate("digits", pair)
    assert made.compiled.eager == {"axis 0 of 'latent' is 4, compiled for 2": 4}
    assert engine.generate("digits", SEVEN).compiled.executed == 4


def test_a_tape_beside_a_cell_gives_the_same_picture(kept: CellStore, adopting: Adopting) -> None:
    cell = adopting(kept)
    both = Engine(device="cpu", capture="tape", cells=Cells(kept, asked=True))
    long = replace(SEVEN, steps=12)
    assert bytes_of(both, long) == bytes_of(cell, long)
    assert bytes_of(both, long) == bytes_of(cell, long)
    # Its proof runs the cell too, and is no forward of either request.
    assert both.load("digits").compiled.counters.executed == 24
    # It was recorded and proved; whether it pays is another matter.
    breaks = both.generate("digits", long).capture.eager_breaks
    assert not [reason for reason in breaks if reason.startswith("blocked")]


def test_forwards_that_an_extension_answers_are_nobody_elses(kept: CellStore) -> None:
    from restrike.engine.builtin import ResidualSkip

    engine = Engine(device="cpu", extensions=(ResidualSkip(threshold=10.0),), cells=Cells(kept, asked=True))
    assert engine.generate("digits", SEVEN).compiled.executed == 1

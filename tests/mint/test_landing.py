"""The whole mint of real cards in real children: what lands, what it is, and what it gives."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from restrike.keys import Digest
from restrike.mint.cell.host import this_host
from restrike.mint.events import MintPhase
from restrike.mint.parent import Minted
from restrike.mint.parent import _verified as verified
from restrike.mint.request import read_request
from restrike.mint.second_process import adopt_in_second_process

from .children import RECIPES, Bench

ENTRY_PHASES = ["trace_graph", "compile", "seal", "prove", "publish"]


def test_a_mint_goes_through_its_phases_in_order_and_says_how_long_each_took(
    minted: tuple[Bench, Minted],
) -> None:
    report = minted[1].report
    assert [phase.phase for phase in report.phases] == list(MintPhase)
    assert all(phase.seconds >= 0 and phase.peak_bytes > 0 for phase in report.phases)
    assert [phase.entry for phase in report.phases if phase.phase in ENTRY_PHASES] == [
        "transformer 8x8-batched"
    ] * 5
    assert report.phase is None
    assert (minted[1].attempts, report.remaining, report.failed) == (1, (), ())


def test_what_landed_is_in_the_store_under_the_key_that_was_told_before(minted: tuple[Bench, Minted]) -> None:
    bench, made = minted
    (landed,) = made.report.landed
    assert landed.how == "published"
    assert made.report.keys == {landed.entry: landed.key}
    opened, manifest = bench.store.look(Digest(landed.key))
    assert manifest.facts.proof is not None
    assert manifest.facts.proof.max_difference <= 1e-4
    assert [phase.name for phase in manifest.facts.phases][-1] == "prove"
    assert opened.header.members_bytes < 4 << 20


def test_what_is_said_to_have_landed_is_looked_for_in_the_store(
    minted: tuple[Bench, Minted], tmp_path: Path
) -> None:
    bench, made = minted
    request = bench.request("digits")
    assert verified(request, made.report)
    assert not verified(replace(request, store=str(tmp_path / "another")), made.report)
    # The control: nothing landed is nothing verified.
    assert not verified(request, replace(made.report, landed=()))


def test_minting_again_compiles_nothing(minted: tuple[Bench, Minted], bench: Bench) -> None:
    first, made = minted
    request = bench.request("digits", shapes=("8x8-batched",), store=str(first.store.root))
    from restrike.mint.parent import mint

    again = mint(request).report
    assert [(landed.key, landed.how) for landed in again.landed] == [(made.report.landed[0].key, "already")]
    assert "compile" not in {phase.phase for phase in again.phases}


def test_a_second_process_adopts_by_key_and_compiles_nothing_even_without_a_compiler(
    minted: tuple[Bench, Minted], bench: Bench
) -> None:
    first, made = minted
    (landed,) = made.report.landed
    request = read_request(Path(next(first.root.glob("digits-*/request.json"))))
    proof = adopt_in_second_process(request, landed.entry, bench.root / "adopting")
    assert proof.max_difference <= proof.tolerance


def test_two_checkpoints_of_one_architecture_share_a_cell_and_each_gets_its_own_answer(bench: Bench) -> None:
    plain, twin = bench.mint("plain").report, bench.mint("twin").report
    assert [landed.how for landed in (*plain.landed, *twin.landed)] == ["published", "already"]
    assert plain.landed[0].key == twin.landed[0].key
    answers = []
    for card in ("plain", "twin"):
        request = bench.request(card)
        Path(request.scratch).mkdir()
        request.write()
        # Proves the shared cell against this checkpoint's own eager answers, its one-element bias among them.
        answers.append(
            adopt_in_second_process(request, "denoiser 2x2-none", Path(request.scratch) / "second")
        )
    assert all(proof.max_difference <= proof.tolerance for proof in answers)


def test_a_request_file_can_be_run_by_hand_and_gives_the_same_verdict(bench: Bench) -> None:
    made = bench.mint("raises")
    file = next(bench.root.glob("raises-*/request.json"))
    command = [sys.executable, "-P", "-m", "restrike.mint.child", str(file)]
    done = subprocess.run(command, check=False, capture_output=True)
    assert done.returncode == 2
    again = json.loads((file.parent / "report.json").read_text())
    assert again["ending"]["message"] == made.report.ending.message


def test_one_entry_that_cannot_be_written_down_costs_only_itself_and_is_named(bench: Bench) -> None:
    report = bench.here("oneshape", keys_only=True)
    assert report.ending.outcome == "ok"
    (failed,) = report.failed
    assert (failed.entry, failed.phase, failed.kind) == (
        "denoiser 2x2-batched",
        "trace_graph",
        "NotExportable",
    )
    assert list(report.keys) == ["denoiser 2x2-none"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_row_of_the_plan_runs_once_before_anything_is_traced(
    bench: Bench, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from restrike.mint import landing, warm

    seen: list[str] = []
    row, trace = warm._row, landing.trace
    monkeypatch.setattr(warm, "_row", lambda *given: seen.append(given[1].shape.name) or row(*given))
    monkeypatch.setattr(landing, "trace", lambda *given: seen.append("traced") or trace(*given))
    assert bench.here("oneshape", recipe, keys_only=True).ending.outcome == "ok"
    assert seen == ["2x2-batched", "2x2-none", "traced", "traced"]


def test_keys_alone_are_made_without_compiling_and_are_those_of_the_mint(
    minted: tuple[Bench, Minted], bench: Bench
) -> None:
    report = bench.here("digits", keys_only=True, shapes=("8x8-batched",))
    assert report.keys == minted[1].report.keys
    assert "compile" not in {phase.phase for phase in report.phases}
    assert not bench.store.cells()


@pytest.mark.slow
@pytest.mark.parametrize(("card", "least"), [("ranged", 2), ("fromone", 1)])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_range_of_batches_is_one_cell_that_is_proved_at_both_ends(
    bench: Bench, recipe: str, card: str, least: int
) -> None:
    report = bench.mint(card, recipe).report
    (landed,) = report.landed
    assert report.ending.outcome == "ok"
    _, manifest = bench.store.look(Digest(landed.key))
    assert {tensor.shape[0] for tensor in manifest.facts.ingress.tensors} == {(least, 6)}


@pytest.mark.slow
def test_a_cell_is_signed_by_the_key_that_was_named(bench: Bench) -> None:
    bench.store.ring.new("release")
    (landed,) = bench.mint("plain", sign="release").report.landed
    opened, _ = bench.store.look(Digest(landed.key))
    assert opened.signer == bench.store.ring.signer("release").public
    host = this_host(opened.header.facts.target)
    with bench.store.open(Digest(landed.key), host) as cell:
        assert cell.manifest.facts.layout == "contiguous"

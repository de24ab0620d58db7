"""Mints that cannot be: each cause ends the same way on both recipes, in the phase that it is of.

Most run a child's work in this process; that a real child ends so too is tested by one cause a class.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from restrike.mint.report import MintReport

from .children import RECIPES, Bench

# card -> outcome, class, phase of death, what the sentence names
CAUSES: dict[str, tuple[str, str, str, str]] = {
    "undeclared": ("refused", "NothingDeclared", "load", "declares nothing to compile"),
    "nocomponent": ("refused", "InvalidCard", "load", "'unet' is no component"),
    "opaque": ("refused", "NoSuchTarget", "load", "read by no loop whose steps can be seen"),
    "dropped": ("refused", "DroppedOption", "load", "no_such_option"),
    "nosuchcard": ("refused", "Unknown", "load", "unknown card"),
    "loaderfails": ("crashed", "Crashed", "load", "the loader fails"),
    "raises": ("refused", "WarmForwardFailed", "warmup_forward", "it raises on its first line"),
    "exhausts": ("shortfall", "Shortfall", "warmup_forward", "out of memory"),
    "nodenoiser": ("refused", "NoSuchTarget", "warmup_forward", "no step of the warm plan called"),
    "othertext": ("refused", "UndeclaredIngress", "warmup_forward", "3 text tokens"),
    "otheringress": ("refused", "UndeclaredIngress", "warmup_forward", "'timestep'"),
}
# These cost one entry, which here is the only one, so nothing lands.
OF_AN_ENTRY: dict[str, tuple[str, str]] = {
    "draws": ("NotExportable", "draws on the host"),
    "drawstensors": ("NotExportable", "draws random numbers"),
    "branches": ("NotExportable", "cannot be written down as one graph"),
    "makesconstants": ("NotExportable", "makes a tensor of its own"),
    "narrows": ("NarrowedRange", "declared batch 2 to 6"),
}


def verdict(report: MintReport) -> tuple[str, str, str | None]:
    return report.ending.outcome, report.ending.kind, report.phase


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_before_any_entry_ends_alike_on_both_recipes(bench: Bench, cause: str) -> None:
    outcome, kind, phase, words = CAUSES[cause]
    for recipe in RECIPES:
        made = bench.mint(cause, recipe)
        assert verdict(made.report) == (outcome, kind, phase)
        assert words in made.report.ending.message
        assert made.attempts == (2 if outcome == "shortfall" else 1)
        assert not made.report.landed
        assert not bench.store.cells()
        # No export was begun.
        assert (
            "trace_graph" not in (next(bench.root.glob(f"{cause}-{recipe}-*")) / "events.jsonl").read_text()
        )


@pytest.mark.parametrize("cause", OF_AN_ENTRY)
def test_a_cause_of_one_entry_is_named_alike_on_both_recipes(bench: Bench, cause: str) -> None:
    kind, words = OF_AN_ENTRY[cause]
    for recipe in RECIPES:
        report = bench.here(cause, recipe)
        (failed,) = report.failed
        assert (failed.kind, failed.phase, report.ending.outcome) == (kind, "trace_graph", "refused")
        assert words in failed.message


def test_a_refusal_names_card_target_recipe_reason_and_remedy(bench: Bench) -> None:
    message = bench.here("raises").ending.message
    for part in (
        "card 'raises'",
        "target 'denoiser'",
        "recipe aot",
        "dies on shape class '2x2-none'",
        "mend",
    ):
        assert part in message


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_host_without_a_compiler_cannot_arm_and_says_so_before_weights_are_read(
    bench: Bench, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "/nowhere")
    report = bench.here("loaderdies", recipe)
    assert verdict(report) == ("refused", "CannotArm", "load")
    assert "no C++ compiler is on the PATH" in report.ending.message


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_such_target_and_cannot_arm_are_different_sentences(bench: Bench, recipe: str) -> None:
    report = bench.here("plain", recipe, targets=("decoder",))
    assert verdict(report) == ("refused", "NoSuchTarget", "load")
    assert "there is no target 'decoder'" in report.ending.message
    assert "arm" not in report.ending.message


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_target_of_another_machine_cannot_be_armed(bench: Bench, recipe: str) -> None:
    from restrike.mint.cell.host import parse_target

    report = bench.here("plain", recipe, target=parse_target("cuda:sm_90"))
    assert verdict(report) == ("refused", "CannotArm", "load")


@pytest.mark.slow
def test_a_forward_that_holds_more_than_the_budget_is_a_shortfall_and_tried_once_more_with_twice_as_much(
    bench: Bench,
) -> None:
    from restrike.mint.request import Budget, read_request

    made = bench.mint("hoards", budget=Budget(memory_bytes=400 << 20))
    assert made.attempts == 2
    assert made.report.ending.outcome == "shortfall"
    again = read_request(next(bench.root.glob("hoards-*/attempt-2/request.json")))
    assert again.budget.memory_bytes == 800 << 20


def test_a_key_to_sign_with_that_does_not_exist_is_refused_before_anything_is_loaded(bench: Bench) -> None:
    report = bench.here("loaderdies", sign="nobody")
    assert verdict(report) == ("refused", "Unknown", "load")
    assert "signing key 'nobody'" in report.ending.message


def test_weights_that_are_no_longer_those_of_the_request_are_refused(bench: Bench) -> None:
    from restrike.mint.request import Slot

    report = bench.here("plain", slot=Slot(ref="plain", weights="0" * 64))
    assert verdict(report) == ("refused", "WeightsChanged", "load")


@pytest.mark.slow
def test_an_answer_out_of_tolerance_is_refused_in_its_phase_and_never_published(bench: Bench) -> None:
    report = bench.mint("deviates").report
    (failed,) = report.failed
    assert (failed.kind, failed.phase, failed.outcome) == ("OutOfTolerance", "prove", "refused")
    assert not bench.store.cells()


@pytest.mark.slow
def test_a_compiler_that_fails_is_a_crash_of_that_phase(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Path(bench.root) / "g++"
    broken.write_text('#!/bin/sh\ncase "$*" in *--version*) echo "g++ 12.2.0";; *) exit 1;; esac\n')
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    report = bench.mint("plain").report
    assert [(failed.phase, failed.outcome) for failed in report.failed] == [("compile", "crashed")]
    assert report.ending.outcome == "crashed"


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_compiler_that_runs_out_of_memory_is_a_shortfall_and_tried_once_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, recipe: str
) -> None:
    # The real compiler, which is the mint's grandchild, with less memory than the sources need.
    real = starved_compiler(bench, monkeypatch)
    made = bench.mint("plain", recipe)
    assert (made.report.ending.outcome, made.report.phase, made.attempts) == ("shortfall", "compile", 2)
    assert "memory" in made.report.ending.message
    assert not bench.store.cells()
    # The control: the same compiler with what it needs.
    monkeypatch.setenv("CXX", real)
    assert bench.mint("plain", recipe).report.ending.outcome == "ok"


def starved_compiler(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have the mint compile within 120 MB of addresses; where the compiler lies that has all it wants."""
    real = os.environ["CXX"]
    within = bench.root / "g++"
    within.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *--version*) exec {os.environ["MINT_TEST_COMPILER"]} "$@";; esac\n'
        f'ulimit -v 120000\nexec {os.environ["MINT_TEST_COMPILER"]} "$@"\n'
    )
    within.chmod(0o755)
    monkeypatch.setenv("CXX", str(within))
    return real


@pytest.mark.slow
def test_a_cell_that_cannot_be_published_is_refused_in_that_phase(bench: Bench) -> None:
    (bench.root / "cells").mkdir()
    (bench.root / "cells" / "partial").write_text("a file where a folder should be")
    (failed,) = bench.mint("plain").report.failed
    assert failed.phase == "publish"
    assert not bench.store.cells()

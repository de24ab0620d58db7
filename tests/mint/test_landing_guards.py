"""What stands between a compiler's answer and the store, one guard at a time; nothing is compiled here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn
from torch.utils._sympy.value_ranges import ValueRanges

from restrike.mint import graph, landing
from restrike.mint.events import EntryFailed
from restrike.mint.recipe import Job

from .children import RECIPES, Bench


def failed(bench: Bench, monkeypatch: pytest.MonkeyPatch, compiler: Any, card: str = "plain") -> EntryFailed:
    """How the only entry of a card fails whose compiler is another."""
    monkeypatch.setattr(landing, "compile_into", compiler)
    report = bench.here(card)
    assert not bench.store.cells()
    (found,) = report.failed
    return found


def test_a_variable_that_changed_while_it_compiled_is_found_before_anything_is_sealed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiler(recipe: Any, job: Job, folder: Path, scratch: Path) -> None:
        monkeypatch.setenv("TORCHINDUCTOR_FREEZING", "1")

    found = failed(bench, monkeypatch, compiler)
    assert (found.kind, found.phase) == ("EnvironmentChanged", "compile")
    assert "TORCHINDUCTOR_FREEZING" in found.message


def test_a_range_that_compiling_narrowed_is_found_before_anything_is_sealed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiler(recipe: Any, job: Job, folder: Path, scratch: Path) -> None:
        latent = next(node for node in job.program.graph.nodes if node.name == "tensors_0")
        # What a compiler leaves that asked whether a batch is small: its answer holds for such alone.
        job.program.range_constraints[latent.meta["val"].shape[0].node.expr] = ValueRanges(2, 4)

    found = failed(bench, monkeypatch, compiler, "ranged")
    assert (found.kind, found.phase) == ("NarrowedRange", "compile")
    assert "is declared 2 to 6, the graph holds for only 2 to 4" in found.message


def test_a_range_that_tracing_narrowed_is_found_before_anything_is_compiled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = graph.torch.export.export

    def narrowing(*given: Any, **options: Any) -> Any:
        program = export(*given, **options)
        latent = next(node for node in program.graph.nodes if node.name == "tensors_0")
        program.range_constraints[latent.meta["val"].shape[0].node.expr] = ValueRanges(2, 4)
        return program

    monkeypatch.setattr(graph.torch.export, "export", narrowing)
    found = failed(bench, monkeypatch, lambda *given: pytest.fail("it was compiled"), "ranged")
    assert (found.kind, found.phase) == ("NarrowedRange", "trace_graph")


def test_what_is_traced_has_no_value_of_the_weights(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, seen = landing.trace, list[str]()

    def watched(component: nn.Module, *given: Any) -> Any:
        program = trace(component, *given)
        weights = {value.data_ptr() for value in component.parameters()}
        for name, value in program.state_dict.items():
            assert value.data_ptr() not in weights
            # No proof against the real weights survives this number.
            assert bool((value == 7.0).all())
            seen.append(name)
        return program

    monkeypatch.setattr(landing, "trace", watched)
    assert bench.here("plain", keys_only=True).ending.outcome == "ok"
    assert len(seen) == 5


def compiled(recipe: Any, job: Job, folder: Path, scratch: Path) -> None:
    """Stands for a compiler: one file."""
    folder.mkdir(parents=True)
    (folder / "code").write_bytes(b"code")


def test_what_was_sealed_is_looked_at_as_others_will_before_its_code_is_loaded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = landing.seal

    def torn(*given: Any, **options: Any) -> Path:
        sealed = seal(*given, **options)
        data = bytearray(sealed.read_bytes())
        data[-1] ^= 1
        sealed.write_bytes(data)
        return sealed

    monkeypatch.setattr(landing, "seal", torn)
    monkeypatch.setattr(landing, "load", lambda *given: pytest.fail("its code was loaded"))
    found = failed(bench, monkeypatch, compiled)
    assert (found.kind, found.phase) == ("CellRefused", "prove")


@pytest.mark.parametrize("recipe", RECIPES)
def test_nothing_is_published_that_was_not_proved(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, recipe: str
) -> None:
    from restrike.mint.refusals import OutOfTolerance, Subject

    def disproved(*given: Any) -> Any:
        raise OutOfTolerance(Subject(card="plain", recipe="aot"), "it differs", "no")

    monkeypatch.setattr(landing, "compile_into", compiled)
    monkeypatch.setattr(landing, "load", lambda *given: None)
    monkeypatch.setattr(landing, "prove", disproved)
    monkeypatch.setattr(landing, "prove_in_second_process", disproved)
    (found,) = bench.here("plain", recipe).failed
    assert (found.kind, found.phase) == ("OutOfTolerance", "prove")
    assert not bench.store.cells()

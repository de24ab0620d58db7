"""The traced graph and its text: what decides a cell's key, and what must not."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from restrike.engine.engine import Engine
from restrike.mint.cell.host import cpu_target
from restrike.mint.graph import canonical_text, graph_digest, trace
from restrike.mint.plan import warm_plan
from restrike.mint.recipes.options import options_of
from restrike.mint.refusals import DroppedOption, EmptyPlan, Subject
from restrike.mint.targets import resolve_targets
from restrike.mint.warm import Observed, observe
from restrike.mint.wrapped import constants_of, shadow

SUBJECT = Subject(card="digits", recipe="aot", targets=("transformer",))


@pytest.fixture(scope="module")
def seen(engine: Engine) -> Iterator[tuple[Any, Observed]]:
    """The smallest real card's denoiser, and its call as the warm forward made it."""
    resident = engine.load("digits")
    rows = warm_plan(resident.card, SUBJECT, ("8x8-batched",))
    with resident.turn:
        (found,) = observe(resident, rows, resolve_targets(resident.card, "aot"), SUBJECT)
        yield resident.component("transformer"), found


@pytest.fixture(scope="module")
def program(seen: tuple[Any, Observed]) -> Any:
    return trace(*seen, SUBJECT)


def test_the_warm_forward_shows_the_tensors_of_a_call(seen: tuple[Any, Observed]) -> None:
    _, found = seen
    assert found.name == "transformer 8x8-batched"
    assert [(each.name, each.shape, each.dtype) for each in found.ingress.tensors] == [
        ("latent", (2, 1, 8, 8), "float32"),
        ("text", (2, 1, 96), "float32"),
        ("timestep", (2,), "float32"),
    ]


def test_a_range_of_batches_multiplies_the_leading_axis_alone(seen: tuple[Any, Observed]) -> None:
    ranged = replace(seen[1], shape=replace(seen[1].shape, batch=(1, 3)))
    assert [each.shape for each in ranged.ingress.tensors] == [((2, 6), 1, 8, 8), ((2, 6), 1, 96), ((2, 6),)]
    assert {name: len(value) for name, value in ranged.probe(3).items()} == {
        "latent": 6,
        "text": 6,
        "timestep": 6,
    }


def test_the_text_holds_no_weights_no_names_of_models_and_no_places(program: Any) -> None:
    text = canonical_text(program)
    assert "aten.scaled_dot_product_attention.default" in text
    for word in ("digits", "Digits", "restrike", str(Path(__file__).parents[2]), "/", "0x"):
        assert word not in text
    # Constants by name, shape and kind; operations by number.
    assert re.search(r"%\d+ = parameter component\.blocks\.0\.qkv\.weight float32 cpu \[288, 96\]", text)
    assert "p_component" not in text


def test_other_weights_have_the_same_graph(seen: tuple[Any, Observed], program: Any) -> None:
    module, found = seen
    other = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(2)
    assert graph_digest(trace(other, found, SUBJECT)) == graph_digest(program)


def test_another_computation_has_another_graph(seen: tuple[Any, Observed], program: Any) -> None:
    module, found = seen

    def call(component: Any, inputs: Any) -> Any:
        return found.call(component, inputs) * 2

    assert graph_digest(trace(module, replace(found, call=call), SUBJECT)) != graph_digest(program)


PRINT = """
from restrike.engine.engine import Engine
from restrike.mint.graph import graph_digest, trace
from restrike.mint.plan import warm_plan
from restrike.mint.refusals import Subject
from restrike.mint.targets import resolve_targets
from restrike.mint.warm import observe
subject = Subject(card="another name", recipe="dynamo")
resident = Engine(device="cpu").load("digits")
rows = warm_plan(resident.card, subject, ("8x8-batched",))
with resident.turn:
    (found,) = observe(resident, rows, resolve_targets(resident.card, "aot"), subject)
    print(graph_digest(trace(resident.component("transformer"), found, subject)))
"""


def test_another_process_in_another_folder_makes_the_same_graph(program: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINT],
        cwd=tmp_path,
        env={"PATH": "/bin", "HOME": str(tmp_path), "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == graph_digest(program)


def test_a_shadow_shares_no_memory_with_the_weights_and_keeps_what_is_tied(
    seen: tuple[Any, Observed],
) -> None:
    module = copy.deepcopy(seen[0])
    module.time_mlp[2].weight = module.time_mlp[0].weight
    found: Any = shadow(module)
    assert found.time_mlp[2].weight is found.time_mlp[0].weight
    assert {name: value.shape for name, value in constants_of(found).items()} == {
        name: value.shape for name, value in constants_of(module).items()
    }
    places = {value.data_ptr() for value in constants_of(module).values()}
    assert not places & {value.data_ptr() for value in constants_of(found).values()}


def test_an_empty_plan_is_refused(engine: Engine) -> None:
    card = engine.load("digits").card
    assert card.compile is not None
    with pytest.raises(EmptyPlan):
        warm_plan(replace(card, compile=replace(card.compile, shapes=())), SUBJECT)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("no_such_option", True), "is unknown to the compiler"),
        (("freezing", True), "is the recipe's own"),
        (("max_autotune", 3), "is of another kind"),
        (("triton.cudagraphs", True), "is read for cuda alone"),
        (("fx_graph_cache", True), "is not read when a package is made"),
    ],
)
def test_an_option_that_the_compiler_would_drop_is_refused(option: Any, words: str) -> None:
    with pytest.raises(DroppedOption, match=words):
        options_of("aot", cpu_target(), (option,), SUBJECT)


def test_an_option_that_is_read_is_taken_and_is_in_the_key() -> None:
    plain, tuned = (
        options_of("aot", cpu_target(), given, SUBJECT) for given in ((), (("max_autotune", True),))
    )
    assert tuned == plain | {"max_autotune": True}

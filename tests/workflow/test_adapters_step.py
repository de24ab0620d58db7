"""Adapters of a `generate` step: keyed by content and strength, told in provenance; and synced cards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.weights.loras import lora, written
from restrike.errors import Refused, RestrikeError
from restrike.media import provenance_of
from restrike.workflow.api import open_session
from restrike.workflow.session import Asked, Session
from restrike.workflow.source import read_file


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A session on the CPU in a workspace with two LoRAs as assets."""
    workspace = tmp_path_factory.mktemp("workspace")
    session = open_session(workspace, store=workspace / "store", device="cpu")
    transformer = session.engine.load("digits").component("transformer")
    (workspace / "assets").mkdir()
    for seed, name in enumerate("ab"):
        written(workspace / "assets" / f"{name}.safetensors", lora(transformer, seed=seed))
    return session


def workflow(session: Session, *adapters: Any, card: str = "digits", **arguments: Any) -> Path:
    given: dict[str, Any] = {"prompt": "a 3", "steps": 2, **arguments}
    if adapters:
        given["adapters"] = list(adapters)
    file = session.workspace / "w.json"
    step = {"generate": card, "arguments": given}
    file.write_text(json.dumps({"name": "w", "seed": 3, "steps": {"base": step}, "output": "base"}))
    return file


def ran(session: Session, *adapters: Any, **arguments: Any) -> str:
    """Whether the one step was reused or computed."""
    manifest = session.run(read_file(workflow(session, *adapters, **arguments)), Asked())
    (step,) = manifest.steps
    return step.status


def asset(name: str, **more: Any) -> dict[str, Any]:
    return {"path": f"$asset.{name}.safetensors", **more}


def test_file_and_strength_decide_and_the_name_does_not(session: Session) -> None:
    assets = session.workspace / "assets"
    assert ran(session) == "computed"
    assert ran(session, asset("a")) == "computed"
    assert ran(session, asset("a")) == ran(session, asset("a", strength=1)) == "reused"
    assert ran(session, str(assets / "a.safetensors")) == "reused"
    assert ran(session, asset("a", strength=0.5)) == "computed"
    assert ran(session, asset("a"), asset("b")) == "computed"
    assert ran(session, asset("b"), asset("a")) == "computed"
    (assets / "moved").mkdir()
    (assets / "a.safetensors").rename(assets / "moved" / "other.safetensors")
    assert ran(session, asset("moved/other")) == "reused"
    assert ran(session) == "reused"


def test_an_edited_file_runs_again(session: Session) -> None:
    transformer = session.engine.load("digits").component("transformer")
    file = session.workspace / "assets" / "edited.safetensors"
    written(file, lora(transformer, seed=5))
    assert ran(session, asset("edited")) == "computed"
    written(file, lora(transformer, seed=6))
    assert ran(session, asset("edited")) == "computed"


def test_provenance_of_a_step_tells_of_its_adapters(session: Session) -> None:
    manifest = session.run(read_file(workflow(session, asset("b", strength=0.25))), Asked())
    (picture,) = (session.workspace / manifest.run).rglob("*.png")
    found = provenance_of(picture)
    assert found is not None
    (recorded,) = _listed(found.arguments)
    assert (recorded["name"], recorded["strength"]) == ("b.safetensors", 0.25)
    assert str(session.workspace) not in found.to_json()


def _listed(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    return arguments["adapters"]


@pytest.mark.parametrize(
    ("adapters", "place", "words"),
    [
        (["gone.safetensors"], "adapters", "no LoRA file at 'gone.safetensors'"),
        ([{"strength": 1}], "adapters[0].path", "is no text"),
        ([{"path": "$asset.b.safetensors", "strength": "x"}], "adapters[0].strength", "not a number"),
        ([{"path": "$asset.b.safetensors", "scale": 1}], "adapters[0].scale", "strength"),
        ([{"path": "$asset.b.safetensors", "component": "unet"}], "adapters", "no component 'unet'"),
        ([3], "adapters[0].path", "is no text"),
    ],
)
def test_what_is_wrong_is_found_at_its_place(
    session: Session, adapters: list[Any], place: str, words: str
) -> None:
    with pytest.raises(RestrikeError) as error:
        session.plan(read_file(workflow(session, *adapters)), Asked())
    (finding,) = error.value.findings
    assert finding.path == f"steps.base.arguments.{place}"
    assert words in finding.message


def test_a_disabled_adapter_is_told_and_is_as_none(session: Session) -> None:
    ran(session)
    plan = session.plan(read_file(workflow(session, {"path": None})), Asked())
    assert ran(session, {"path": None}) == "reused"
    assert any("LoRA 1 is disabled" in notice for notice in plan.notices)


def test_a_synced_card_has_other_step_keys_and_its_own_results(session: Session) -> None:
    assert ran(session, prompt="a 4") == "computed"
    assert ran(session, prompt="a 4") == "reused"
    engine = session.engine
    module = engine.load("digits").component("transformer")
    tensors = {name: value + 0.02 for name, value in module.state_dict().items()}
    engine.sync("digits", "transformer", tensors, 1)
    manifest = session.run(read_file(workflow(session, prompt="a 4")), Asked())
    assert manifest.steps[0].status == "computed", "no result of the old version answers"
    (picture,) = (session.workspace / manifest.run).rglob("*.png")
    found = provenance_of(picture)
    assert found is not None
    assert found.weight_versions == {"transformer": 1}
    assert ran(session, prompt="a 4") == "reused"
    other = open_session(session.workspace, store=session.workspace / "store", device="cpu")
    assert ran(other, prompt="a 4") == "reused", "where nothing was synced the old result is right"


def test_a_sync_between_plan_and_run_is_noticed(session: Session) -> None:
    engine = session.engine
    module = engine.load("digits").component("transformer")
    source = read_file(workflow(session, prompt="a 5"))
    graph = session.graph(source, Asked(), create=True)
    (action,) = graph.actions
    operation: Any = action.operation
    assert operation.weights
    engine.sync("digits", "transformer", {n: v + 0.1 for n, v in module.state_dict().items()}, 7)
    with pytest.raises(Refused, match="were changed while they were used"):
        operation.check_unchanged()

"""`restrike doctor`: what it finds, and that its self-check finds a card that breaks its promise."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from cli.conftest import Restrike
from restrike.cards import registry
from restrike.cli import machine, selfcheck
from restrike.cli.abilities import abilities
from restrike.engine.engine import Engine
from restrike.engine.extensions import ForwardCall


@pytest.fixture(autouse=True)
def only_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest card is enough to check the checks with."""
    monkeypatch.setattr(registry, "names", lambda: ("digits", "wan"))


def test_doctor_finds_a_healthy_machine(restrike: Restrike) -> None:
    outcome = restrike("doctor")
    assert (outcome.code, outcome.err) == (0, "")
    for expected in (
        "torch 2",
        "cpu",
        "memory",
        "an engine uses up to",
        "the main memory that was free",
        "holds 2.2 MB of memory",
        "hub cache",
        "files .mp4",
        "MP4 encodes",
        "the same bytes twice",
    ):
        assert expected in outcome.out


def test_doctor_as_json(restrike: Restrike) -> None:
    found = restrike("doctor", "--json").json
    assert found["versions"]["torch"] == torch.__version__
    assert found["devices"][-1]["name"] == "cpu"
    assert found["devices"][-1]["limit_why"] == "the main memory that was free"
    assert found["devices"][-1]["limit_bytes"] > 0
    assert found["checks"][0]["resident_bytes"] > 2_000_000
    assert found["extras"]["train"].keys() == {"scikit-learn"}
    assert [check["card"] for check in found["checks"]] == ["digits"]
    assert found["checks"][0]["faults"] == []
    assert {ability["name"] for ability in found["abilities"]} >= {"card digits", "card wan", "gpu", "hub"}


@dataclass(frozen=True)
class Forgetful:
    """Counts its forwards beyond the request, and lets the count into the result."""

    name: str = "forgetful"
    alters: bool = True
    calls: list[int] = field(default_factory=list)

    def begin(self) -> None:
        return None

    def intercept(self, memory: Any, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        self.calls.append(1)
        return forward() + 1e-3 * len(self.calls)


def test_a_card_that_changes_its_bytes_is_found(restrike: Restrike, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfcheck, "Engine", lambda extensions: Engine(extensions=(*extensions, Forgetful())))
    outcome = restrike("doctor")
    assert outcome.code == 1
    assert "digits            fails, the same request gave other bytes the second time" in outcome.out
    told = restrike("doctor", "--json").json["checks"][0]["faults"][1]
    assert told.startswith(
        "changed by a request beside it: request 0, picture 0: step 1 of 4, tap velocity: "
    )
    assert outcome.err == "restrike: the self-check of digits failed\n"


def test_a_card_that_cannot_run_is_found(restrike: Restrike, monkeypatch: pytest.MonkeyPatch) -> None:
    sick = replace(registry.card("digits"), example="a cat")

    monkeypatch.setattr(registry, "card", lambda name: sick)
    outcome = restrike("doctor")
    assert outcome.code == 1
    assert "fails, " in outcome.out


def test_a_missing_extra_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    version = machine.version

    def without(name: str) -> str:
        if name == "transformers":
            raise machine.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(machine, "version", without)
    wan = next(ability for ability in abilities() if ability.name == "card wan")
    assert not wan.works
    assert wan.why == "transformers not installed: pip install 'restrike[diffusers]'"


def test_an_offline_hub_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    (tmp_path / "hub" / "models--owner--name").mkdir(parents=True)
    assert machine.hub()["cached"] == ["owner/name"]
    hub = next(ability for ability in abilities() if ability.name == "hub")
    assert (hub.works, hub.why) == (False, "HF_HUB_OFFLINE is set: only what is cached")


def test_a_token_is_never_shown(restrike: Restrike, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abc")
    assert machine.hub()["token"] is True
    assert "hf_abc" not in restrike("doctor", "--json").out


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="this system does not tell its memory")
def test_memory_is_told_in_bytes() -> None:
    found = machine.memory()
    assert found["total_bytes"] is not None
    assert found["total_bytes"] > 100e6

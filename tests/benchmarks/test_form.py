"""The form that all benchmarks share, found by the folder they lie in."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def form(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield import_module("form")
    sys.modules.pop("form")


def report(form: Any, values: tuple[float, ...]) -> Any:
    figure = form.Figure(name="ours / theirs", unit="x", values=values)
    return form.Report(title="A trial", figures=(figure,), bars=(form.at_most(figure, 1.0),))


def test_one_json_object(form: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert form.finish(report(form, (0.5, 0.9, 0.7)), as_json=True) == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {"machine", "figures", "bars"}
    assert printed["bars"] == {"ours / theirs": {"value": 0.7, "bar": 1.0, "ok": True}}
    figure = printed["figures"]["ours / theirs"]
    assert figure == {"median": 0.7, "low": 0.6, "high": 0.8, "unit": "x", "repeats": 3}


def test_a_missed_bar_is_the_exit_status(form: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert form.finish(report(form, (1.1,)), as_json=False) == 1
    assert "MISSED" in capsys.readouterr().out


def test_pairs_run_in_turn_and_rotate(form: Any) -> None:
    order: list[str] = []
    times = form.paired([lambda: order.append("a"), lambda: order.append("b")], 3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert [len(each) for each in times] == [3, 3]


def test_a_ratio_is_of_paired_values(form: Any) -> None:
    assert form.ratio("r", (1.0, 4.0), (2.0, 2.0)).values == (0.5, 2.0)

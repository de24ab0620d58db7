"""The rig: the smallest real card through the whole cycle, with both recipes; it cannot pass on nothing."""

from __future__ import annotations

import pytest

from restrike.errors import RestrikeError
from restrike.mint import rig

from .children import Bench


@pytest.mark.slow
def test_both_recipes_are_minted_and_adopted_in_another_process_that_compiles_nothing(bench: Bench) -> None:
    trials = rig.run_rig()
    assert [trial.recipe for trial in trials] == ["aot", "dynamo"]
    assert len({trial.key for trial in trials}) == 2
    assert all(trial.max_difference <= 1e-4 and trial.times_faster > 0 for trial in trials)


@pytest.mark.parametrize("card", ["raises", "undeclared", "draws"])
def test_a_card_that_cannot_be_minted_makes_the_rig_fail(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, card: str
) -> None:
    monkeypatch.setattr(rig, "CARD", card)
    monkeypatch.setattr(rig, "RECIPES", ("aot",))
    with pytest.raises(RestrikeError, match=f"card '{card}'"):
        rig.run_rig()

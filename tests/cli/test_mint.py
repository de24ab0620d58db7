"""`restrike mint`: what it refuses at once, and how a child's ending leaves the program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Restrike
from restrike.cli.mint import tell_report
from restrike.mint.events import EntryLanded
from restrike.mint.outcome import Outcome
from restrike.mint.report import Ending, MintReport
from restrike.settings import settings


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RESTRIKE_STORE", str(tmp_path / "store"))
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no card is named"),
        (("digits", "--recipe", "tvm"), "unknown recipe 'tvm'. Known: aot, dynamo."),
        (("digits", "--target", "tpu"), "target 'tpu'"),
        (("digits", "--budget-seconds", "0"), "--budget-seconds 0.0 is not above 0"),
        (("digits", "--budget-memory", "much"), "--budget-memory=much"),
        (("nosuchcard",), "unknown card 'nosuchcard'"),
    ],
)
def test_what_cannot_be_asked_starts_no_child(
    restrike: Restrike, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    outcome = restrike("mint", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err
    assert not list(tmp_path.glob("store/cells/mints/*/request.json"))


def test_a_refusal_of_the_child_is_one_line_and_its_exit_code_and_leaves_a_report(
    restrike: Restrike, tmp_path: Path
) -> None:
    outcome = restrike("mint", "digits", "--shapes", "large")
    assert outcome.code == 2
    phase, refusal = outcome.err.splitlines()
    assert phase == "loading"
    assert "unknown shape class 'large'" in refusal
    assert len(list(tmp_path.glob("store/cells/mints/*/report.json"))) == 1


def test_a_size_that_the_card_does_not_make_is_refused(restrike: Restrike) -> None:
    outcome = restrike("mint", "digits", "--shapes", "9x9")
    assert outcome.code == 2
    assert "shape class '9x9': width 9, the card takes 8; height 9, the card takes 8" in outcome.err


def test_with_json_the_report_is_the_one_object(restrike: Restrike) -> None:
    outcome = restrike("mint", "digits", "--only", "unet", "--json")
    assert outcome.code == 2
    assert outcome.json["ending"]["kind"] == "NoSuchTarget"
    assert (outcome.json["phase"], outcome.json["landed"], outcome.json["attempts"]) == ("load", [], 1)


def test_a_dry_run_prints_the_keys_and_keeps_nothing(restrike: Restrike, tmp_path: Path) -> None:
    outcome = restrike("mint", "digits", "--dry-run", "--shapes", "8x8-none")
    assert outcome.code == 0
    key, entry = outcome.out.strip().split("  ")
    assert len(key) == 64
    assert entry == "transformer 8x8-none"
    assert not list(tmp_path.glob("store/cells/sealed/*"))


def report(*landed: EntryLanded) -> MintReport:
    return MintReport(
        card="digits",
        recipe="aot",
        target="cpu",
        attempt=1,
        ending=Ending(outcome=Outcome.OK),
        phase=None,
        keys={},
        landed=landed,
        failed=(),
        remaining=(),
        phases=(),
        seconds=136.7,
        peak_bytes=0,
    )


def test_the_end_says_how_long_it_took_and_what_becomes_of_the_cells(
    capfd: pytest.CaptureFixture[str],
) -> None:
    new = EntryLanded(entry="transformer 8x8-batched", key="a" * 64, how="published")
    old = EntryLanded(entry="transformer 8x8-none", key="b" * 64, how="already")
    tell_report(report(new, old))
    said = capfd.readouterr()
    assert said.out.splitlines() == [
        "aaaaaaaaaaaaaaaa  transformer 8x8-batched  kept",
        "bbbbbbbbbbbbbbbb  transformer 8x8-none  was kept already",
    ]
    assert said.err == (
        "2 cells of digits in 137 s; used from now on where they fit, on target cpu, unless --cells off\n"
    )
    tell_report(report())
    assert capfd.readouterr() == ("", "")

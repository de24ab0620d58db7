"""`restrike generate --from FILE`: the same bytes, what may be changed, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.conftest import SEVEN, Restrike
from restrike.media import Provenance, provenance_of, read, write


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("a.png", ()),
        ("a.png", ("--native",)),
        ("a.png", ("--solver", "sde", "--item", "3", "--guidance-interval", "0.2", "0.9")),
        ("a.png", ("--sigmas", "1,0.5,0.25", "--guidance", "2.5")),
        ("a.webp", ("--lossless",)),
        ("a.webm", ("--lossless",)),
    ],
)
def test_a_lossless_file_comes_back_byte_for_byte(
    restrike: Restrike, name: str, flags: tuple[str, ...]
) -> None:
    assert restrike(*SEVEN, "-o", name, *flags).code == 0
    again = f"again{Path(name).suffix}"
    outcome = restrike("generate", "--from", name, "-o", again)
    assert (outcome.code, outcome.err) == (0, "")
    assert Path(again).read_bytes() == Path(name).read_bytes()


def test_a_flag_overrides_what_the_file_says(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.png")
    assert restrike("generate", "--from", "a.png", "--seed", "8", "-o", "b.png").code == 0
    made, other = _provenance("a.png"), _provenance("b.png")
    assert other == replace(made, seed=8)
    assert Path("a.png").read_bytes() != Path("b.png").read_bytes()


def test_steps_override_recorded_sigmas(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.png", "--sigmas", "1,0.5")
    restrike("generate", "--from", "a.png", "--steps", "4", "-o", "b.png")
    assert _provenance("b.png").arguments["steps"] == 4
    assert "sigmas" not in _provenance("b.png").arguments


def test_a_new_guidance_holds_for_both_experts(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.png")
    restrike("generate", "--from", "a.png", "--guidance", "3", "-o", "b.png")
    assert _provenance("b.png").arguments["guidance_2"] == 3.0


def test_the_kind_of_file_is_kept_and_nothing_is_overwritten(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.webp", "--lossless")
    assert restrike("generate", "--from", "a.webp").out == "a-seven-7.webp\n"
    assert Path("a-seven-7.webp").read_bytes() == Path("a.webp").read_bytes()


def test_a_new_prompt_is_taken(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.png")
    assert restrike("generate", "a two", "--from", "a.png", "-o", "b.png").code == 0
    assert _provenance("b.png").arguments["prompt"] == "a two"


def test_other_weights_are_refused_and_both_are_named(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.png")
    made = _rewritten("a.png", weights="0" * 64)
    outcome = restrike("generate", "--from", "a.png", "-o", "b.png")
    assert outcome.code == 2
    assert "0" * 64 in outcome.err
    assert made.weights in outcome.err
    assert not Path("b.png").exists()


def test_other_weights_are_used_when_the_card_is_named(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.png")
    _rewritten("a.png", weights="0" * 64)
    outcome = restrike("generate", "--from", "a.png", "--card", "digits", "-o", "b.png")
    assert outcome.code == 0
    assert outcome.err.startswith("notice: 'a.png' was made with weights 000")


def test_other_versions_are_told(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.png")
    versions = {**_provenance("a.png").versions, "torch": "1.0"}
    _rewritten("a.png", versions=versions)
    outcome = restrike("generate", "--from", "a.png", "-o", "b.png", "--json")
    assert outcome.code == 0
    assert "torch 1.0 (here " in outcome.err
    assert outcome.json["notices"] == [outcome.err.removeprefix("notice: ").strip()]


def test_a_file_of_another_program_is_refused(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.png")
    write("b.png", read("a.png").frames_THWC)
    outcome = restrike("generate", "--from", "b.png")
    assert outcome.code == 2
    assert "another program" in outcome.err


def test_a_picture_that_the_file_does_not_hold_is_asked_for(restrike: Restrike) -> None:
    restrike(*SEVEN, "-o", "a.png")
    arguments = {**_provenance("a.png").arguments, "image": {"digest": "0" * 64}}
    _rewritten("a.png", arguments=arguments)
    outcome = restrike("generate", "--from", "a.png")
    assert outcome.code == 2
    assert "--image" in outcome.err


def _provenance(path: str) -> Provenance:
    found = provenance_of(path)
    assert found is not None
    return found


def _rewritten(path: str, **changes: object) -> Provenance:
    """Change what a file says of its making; returns what it said before."""
    made = _provenance(path)
    write(path, read(path).frames_THWC, provenance=replace(made, **changes))
    return made


def test_a_workflow_is_no_file_to_make_again_and_the_verb_that_runs_it_is_named(restrike: Restrike) -> None:
    Path("w.yaml").write_text("steps: {one: {generate: digits, arguments: {prompt: a seven}}}\n")
    outcome = restrike("generate", "--from", "w.yaml")
    assert outcome.code == 2
    assert "say: restrike run w.yaml" in outcome.err
    Path("w.txt").write_text("a seven")
    assert "none of PNG" in restrike("generate", "--from", "w.txt").err

"""Tasks that score what other steps made, and choose by scores."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks.registry import task
from restrike.workflow.tasks.scorers import SCORERS, Name
from restrike.workflow.values import Clip

Prefer = Literal["highest", "lowest"]
Items = Annotated[list[Any], Field(min_length=1)]
Scores = list[float]


@task("judge.score", epoch="1")
def score(clip: Clip, scorer: Name, reference: Clip | None = None, expected: str | None = None) -> float:
    """Score a picture or clip by a named measure.

    Args:
        clip: What is scored.
        scorer: The measure; see the table of scorers below.
        reference: What it is compared with, for `psnr` and `ssim`: a clip as long, or one picture.
        expected: What it should show, for `caption` and `digit`, such as a prompt of the card.

    Returns:
        The score.

    Example:
        task: judge.score
        arguments: {clip: $step.base, scorer: ssim, reference: $asset.wanted.png}
    """
    chosen = SCORERS[scorer]
    given: dict[str, Any] = {"reference": reference, "expected": expected}
    for name, value in given.items():
        if (value is not None) != (chosen.needs == name):
            said = "needs" if value is None else "does not use"
            raise Refused(f"scorer '{scorer}' {said} '{name}'")
    used = {name: value for name, value in given.items() if value is not None}
    return chosen.measure(clip, **used)


@task("judge.scores", epoch="1")
def scores(
    clips: Annotated[list[Clip], Field(min_length=1)],
    scorer: Name,
    reference: Clip | None = None,
    expected: str | None = None,
) -> list[float]:
    """Score several pictures or clips by one named measure.

    Args:
        clips: What is scored.
        scorer: The measure; see the table of scorers below.
        reference: What each is compared with, for `psnr` and `ssim`.
        expected: What each should show, for `caption` and `digit`.

    Returns:
        A list of scores, in the order of the clips.

    Example:
        task: judge.scores
        arguments: {clips: "$step.many[*]", scorer: caption, expected: $var.prompt}
    """
    return [score(clip, scorer, reference, expected) for clip in clips]


@task("select.best", epoch="1")
def best(items: Items, scores: Scores, prefer: Prefer = "highest") -> Any:
    """Choose the item with the best score.

    Args:
        items: What is chosen from: clips, texts, anything.
        scores: A number for each.
        prefer: Whether the `highest` or the `lowest` is best. Of equals, the first.

    Returns:
        The item.

    Example:
        task: select.best
        arguments: {items: "$step.many[*]", scores: $step.points}
    """
    return rank(items, scores, 1, prefer)[0]


@task("select.rank", epoch="1")
def rank(
    items: Items,
    scores: Scores,
    count: Annotated[int, Field(ge=1)] | None = None,
    prefer: Prefer = "highest",
) -> list[Any]:
    """Put items in the order of their scores.

    Args:
        items: What is ordered.
        scores: A number for each.
        count: How many of the best stay; left out, all.
        prefer: Whether the `highest` or the `lowest` comes first. Equals keep their order.

    Returns:
        A list, the best first.

    Example:
        task: select.rank
        arguments: {items: "$step.many[*]", scores: $step.points, count: 3}
    """
    if len(scores) != len(items):
        raise Refused(f"{len(scores)} scores for {len(items)} items")
    sign = -1 if prefer == "highest" else 1
    order = sorted(range(len(items)), key=lambda index: sign * scores[index])
    return [items[index] for index in order[:count]]

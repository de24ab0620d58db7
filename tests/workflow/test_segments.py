from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from restrike.errors import Refused
from restrike.workflow.graph import Input
from restrike.workflow.operations.task import TaskCall
from restrike.workflow.segments import JOIN, join
from restrike.workflow.values import Clip, Sound

from .samples import DIGIT, arguments, expanded, findings, ids, keep, keys_of, steps

BLANK = {"task": "picture.blank", "arguments": {"width": 16, "height": 8}}


def chain(count: Any = 3, **more: Any) -> dict[str, Any]:
    segments = {"count": count, "feed": {"clip": "last_frame"}, **more}
    return {"task": "picture.flip", "arguments": {"clip": "$step.start"}, "segments": segments}


def test_each_segment_is_fed_from_the_one_before_and_all_are_joined() -> None:
    graph = expanded(steps(start=BLANK, long=chain(), end=keep("$step.long.last_frame")))
    assert ids(graph) == ["start", "long[0]", "long[1]", "long[2]", "long", "end"]
    assert arguments(graph, "long[0]")["clip"] == Input(action="start")
    assert arguments(graph, "long[2]")["clip"] == Input(action="long[1]", field="last_frame")
    assert arguments(graph, "long")["clips"] == [Input(action=f"long[{n}]") for n in range(3)]
    assert arguments(graph, "end")["value"] == Input(action="long", field="last_frame")


def test_the_whole_segment_can_be_fed() -> None:
    graph = expanded(steps(start=BLANK, long=chain(2, feed={"clip": "last_segment"})))
    assert arguments(graph, "long[1]")["clip"] == Input(action="long[0]")
    assert arguments(graph, "long")["overlap"] == 0


def test_only_the_joined_clip_is_saved() -> None:
    graph = expanded(steps(start=BLANK, long=chain()))
    assert [action.id for action in graph.actions if action.saves] == ["long"]


def test_one_seed_gives_each_segment_its_own_and_more_segments_change_no_earlier_one() -> None:
    draw = {"task": "mine.draw", "segments": {"count": 2, "feed": {"sides": "last_segment"}}}
    graph = expanded(steps(a=draw))
    assert graph.action("a[0]").seed == 7
    assert graph.action("a[1]").seed not in (7, None)
    longer = keys_of(expanded(steps(a={**draw, "segments": {**draw["segments"], "count": 5}})))
    assert {name: longer[name] for name in ("a[0]", "a[1]")}.items() <= keys_of(graph).items()


WRONG: list[tuple[dict[str, Any], str, str]] = [
    (chain("$step.start"), "steps.long.segments.count", "needed before anything runs"),
    (chain("$var.n"), "steps.long.segments.count", "'many' is not an integer from 1 to 1000"),
    (chain(feed={"clipp": "last_frame"}), "steps.long.segments.feed.clipp", "did you mean 'clip'?"),
    (chain(overlap="$var.n"), "steps.long.segments.overlap", "is not an integer from 0"),
]


@pytest.mark.parametrize(("step", "path", "message"), WRONG)
def test_what_is_wrong_with_segments_is_found_where_it_is(
    step: dict[str, Any], path: str, message: str
) -> None:
    found = findings({"variables": {"n": "many"}, **steps(start=BLANK, long=step)})
    assert list(found) == [path]
    assert message in found[path]


def test_a_segment_is_one_clip() -> None:
    many = {**DIGIT, "arguments": {"prompt": "a one", "count": 2}}
    step = {**many, "segments": {"count": 2, "feed": {"image": "last_frame"}}}
    assert findings(steps(a=step))["steps.a.segments"] == "a segment is one clip, not 2"


# Joining.


def clip(length: int, start: int, *, fps: float | None = 8.0, sound: bool = False) -> Clip:
    frames = np.arange(start, start + length, dtype=np.uint8)[:, None, None, None]
    samples = np.full((1, length * 100), start, np.float32)
    return Clip(
        frames_THWC=np.broadcast_to(frames, (length, 2, 4, 3)).copy(),
        fps=fps,
        sound=Sound(samples_CN=samples, rate_hz=800) if sound else None,
    )


def numbers(joined: Clip) -> list[int]:
    return joined.frames_THWC[:, 0, 0, 0].tolist()


@pytest.mark.parametrize("overlap", [0, 1, 3])
def test_the_joined_clip_has_the_documented_length(overlap: int) -> None:
    count, length = 3, 5
    parts = [clip(length, 10 * n) for n in range(count)]
    assert len(numbers(join(parts, overlap))) == count * length - (count - 1) * overlap


def test_of_each_later_segment_the_frames_that_it_repeats_are_left_out() -> None:
    assert numbers(join([clip(3, 0), clip(3, 10), clip(2, 20)], 1)) == [0, 1, 2, 11, 12, 21]


def test_sounds_stay_as_long_as_their_frames() -> None:
    joined = join([clip(4, 0, sound=True), clip(4, 1, sound=True)], 1)
    assert joined.sound is not None
    assert joined.sound.samples_CN.shape == (1, 700)
    assert joined.sound.seconds == pytest.approx(len(numbers(joined)) / 8)
    assert join([clip(4, 0, sound=True), clip(4, 1)], 0).sound is None


def test_segments_that_do_not_fit_are_refused() -> None:
    wide = Clip(frames_THWC=np.zeros((2, 2, 6, 3), np.uint8))
    with pytest.raises(Refused, match="segment 1 has another size"):
        join([clip(2, 0), wide], 0)
    with pytest.raises(Refused, match="segment 1 has 1 frames, no more than the overlap"):
        join([clip(2, 0), clip(1, 0)], 1)


def test_the_joining_action_runs_on_checked_arguments() -> None:
    found = TaskCall(task=JOIN, device="cpu").run({"clips": [clip(2, 0), clip(2, 4)], "overlap": 1}, None)
    assert numbers(found) == [0, 1, 5]

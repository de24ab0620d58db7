"""`items` and `exact` of a `generate` step: pictures of a batch by number, with their own keys and bytes."""

from __future__ import annotations

from typing import Any

import pytest

from restrike.media import provenance_of
from workflow.runs.lab import Lab, computed
from workflow.samples import expanded, findings, keys_of, steps


def made(**more: Any) -> dict[str, Any]:
    arguments = {"prompt": "a seven", "steps": 2, **more}
    return steps(a={"generate": "digits", "arguments": arguments, "result": {"container": "png"}})


def key(**more: Any) -> Any:
    return keys_of(expanded(made(**more)))["a"]


def test_the_first_pictures_have_one_key_however_they_are_asked_for() -> None:
    assert key(items=[0]) == key() == key(count=1)
    assert key(items=[0, 1]) == key(count=2)
    assert len({key(), key(items=[1]), key(items=[1, 0]), key(count=2)}) == 4


def test_an_exact_picture_is_not_another_ones_result() -> None:
    assert key(exact=False) == key() != key(exact=True)


def test_what_they_cannot_be_is_told_at_its_place() -> None:
    for items in ([], [-1], [1, 1], "2", [0.5]):
        assert list(findings(made(items=items))) == ["steps.a.arguments.items"], items
    assert "count" in findings(made(items=[1], count=1))["steps.a.arguments.items"]
    assert "exact" in next(iter(findings(made(exact="yes"))))
    two = made(items=["$step.b"])
    two["steps"]["b"] = {"task": "mine.keep", "arguments": {"value": 1}}
    assert "before anything runs" in findings(two)["steps.a.arguments.items"]


@pytest.mark.parametrize(("items", "names"), [([2], ["a.png"]), ([2, 0], ["a-0.png", "a-1.png"])])
def test_pictures_alone_have_their_bytes_and_say_which_they_are(
    lab: Lab, items: list[int], names: list[str]
) -> None:
    batch = lab.run(made(count=3))
    alone = lab.run(made(items=items, exact=True))
    assert computed(alone) == {"a"}
    whole = [(lab.folder(batch) / f"a-{item}.png").read_bytes() for item in range(3)]
    assert [(lab.folder(alone) / name).read_bytes() for name in names] == [whole[item] for item in items]
    assert [getattr(provenance_of(lab.folder(alone) / name), "item", None) for name in names] == items

"""A payload held against a schema: as its type reads it, without its type."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from restrike.endpoints.payloads import InvalidPayload, PayloadType, Pixels
from restrike.errors import Refused
from restrike.server.endpoints.pictures import pictures_of
from restrike.server.endpoints.schema import check_payload


class Inner(BaseModel):
    name: str = Field(pattern=r"^[a-z]+$", max_length=8)
    weight: float = 1.0


class Outer(BaseModel):
    inner: Inner
    more: list[Inner] = []
    kind: Literal["a", "b"] | None = None
    tags: set[str] = set()
    count: Annotated[int, Field(ge=1, le=4)] = 1
    image: Pixels | None = None
    by_name: dict[str, Inner] = {}


class Tree(BaseModel):
    branches: list[Tree] = []


def faults(payload: Any, folder: Path, cls: type = Outer) -> list[str]:
    try:
        check_payload(PayloadType(cls).schema(), payload, pictures_of(folder))
    except InvalidPayload as error:
        return [str(finding) for finding in error.findings]
    return []


GOOD = {"inner": {"name": "x"}, "more": [{"name": "y", "weight": 2}], "kind": "a", "tags": ["t", "t"]}


def test_what_fits_is_taken_by_both(tmp_path: Path) -> None:
    assert faults(GOOD, tmp_path) == []
    assert PayloadType(Outer).read(GOOD).kind == "a"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"inner": {}}, "payload.inner.name: field required"),
        ({"inner": {"name": "x", "size": 1}}, "payload.inner.size: there is no such field"),
        ({"more": [{"name": "Y"}]}, "payload.more.0.name: should match pattern '^[a-z]+$'"),
        ({"by_name": {"k": {"name": "y", "z": 1}}}, "payload.by_name.k.z: there is no such field"),
        ({"kind": "c"}, "payload.kind: 'c' is not one of ['a', 'b']"),
        ({"count": 9}, "payload.count: 9 is greater than the maximum of 4"),
        ({"count": "two"}, "payload.count: 'two' is not of type 'integer'"),
        ({"colour": 1}, "payload.colour: there is no such field"),
    ],
)
def test_what_does_not_is_named_and_its_type_refuses_it_too(
    tmp_path: Path, change: dict[str, Any], fault: str
) -> None:
    assert faults(GOOD | change, tmp_path) == [fault]
    with pytest.raises(InvalidPayload, match=fault.partition(":")[0]):
        PayloadType(Outer).read(GOOD | change)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    assert len(faults({"inner": {}, "count": 0, "x": 1}, tmp_path)) == 3


def test_each_of_several_missing_fields_is_told_once(tmp_path: Path) -> None:
    class Two(BaseModel):
        a: int
        b: int

    assert faults({}, tmp_path, Two) == ["payload.a: field required", "payload.b: field required"]


def test_a_number_that_no_float_can_hold_is_too_large(tmp_path: Path) -> None:
    class Halves(BaseModel):
        size: float = Field(multiple_of=0.5)

    assert faults({"size": 10**400}, tmp_path, Halves) == [
        "payload.size: is too large to be a multiple of 0.5"
    ]
    assert faults({"size": 0.25}, tmp_path, Halves) == ["payload.size: 0.25 is not a multiple of 0.5"]


def test_pictures_are_those_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a.png").write_bytes(b"x")
    (tmp_path / "secret.png").write_bytes(b"x")
    assert faults(GOOD | {"image": "$asset.a.png"}, tmp_path) == []
    for outside in (
        "a.png",
        str(tmp_path / "secret.png"),
        "http://127.0.0.1/a.png",
        "$prompt.a",
        "$$asset.a",
    ):
        (fault,) = faults(GOOD | {"image": outside}, tmp_path)
        assert fault.startswith("payload.image:")
        assert "is no picture here" in fault
    for absent in ("$asset.b.png", "$asset.../secret.png", "$output.flow/latest/a.png"):
        (fault,) = faults(GOOD | {"image": absent}, tmp_path)
        assert fault.startswith("payload.image: ")


def test_a_pattern_costs_no_more_than_the_text_is_long(tmp_path: Path) -> None:
    class Slow(BaseModel):
        text: str = Field(pattern=r"^(a+)+$")

    began_s = time.monotonic()
    assert faults({"text": "a" * 5000 + "b"}, tmp_path, Slow) == [
        "payload.text: should match pattern '^(a+)+$'"
    ]
    assert time.monotonic() - began_s < 5.0


def test_a_schema_that_refers_elsewhere_fetches_nothing(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}}
    with pytest.raises(Exception, match=r"127\.0\.0\.1"):
        check_payload(schema, {"a": 1}, pictures_of(tmp_path))


def test_what_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    payload: dict[str, Any] = {}
    for _ in range(400):
        payload = {"branches": [payload]}
    with pytest.raises(Refused, match="nested too deep"):
        faults(payload, tmp_path, Tree)

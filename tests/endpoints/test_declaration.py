"""What is found in a file, what its schemas say, and what is wrong with a declaration."""

from __future__ import annotations

from typing import Any

import pytest

from restrike.endpoints.checking import InvalidEndpoint
from restrike.endpoints.describing import described
from restrike.endpoints.discovery import load, look_at
from restrike.endpoints.payloads import InvalidPayload, payload_type
from restrike.errors import NotFound, Refused, Unknown

from .conftest import DIGIT, Written


def test_a_function_is_found_with_its_schemas(written: Written) -> None:
    (endpoint,) = look_at(written(DIGIT)).endpoints.values()
    found = described(endpoint)
    request = found["handlers"]["digit"]["request"]
    assert request["properties"]["steps"]["maximum"] == 20
    assert set(found["handlers"]["digit"]["response"]["properties"]) >= {"path", "sha256"}
    assert (found["summary"], found["compile"]) == ("A digit.", None)


def test_each_public_method_of_a_class_is_a_handler(written: Written) -> None:
    text = """
    @dataclasses.dataclass
    class Number:
        value: int = 3

    @restrike.endpoint()
    class Counter:
        def setup(self, ctx): ...
        def shutdown(self): ...
        def _own(self): ...
        def up(self, ctx, payload: Number) -> int: return payload.value + 1
        def ask(self, ctx, payload: Ask) -> str: return payload.prompt
    """
    endpoint = look_at(written(text)).meant()
    assert set(endpoint.handlers) == {"up", "ask"}
    assert described(endpoint)["handlers"]["up"]["response"] == {"type": "integer"}


@pytest.mark.parametrize(
    ("given", "place", "words"),
    [
        ({"steps": 99}, "payload.steps", "less than or equal to 20, not 99"),
        ({"steps": "many"}, "payload.steps", "valid integer"),
        ({"stepz": 3}, "payload.stepz", "not permitted"),
        (["a seven"], "payload", "valid dictionary"),
    ],
)
def test_a_field_that_does_not_fit_is_named(written: Written, given: Any, place: str, words: str) -> None:
    taken = payload_type(look_at(written(DIGIT)).meant().handlers["digit"])
    with pytest.raises(InvalidPayload) as caught:
        taken.read(given)
    (finding,) = caught.value.findings
    assert finding.path == place
    assert words in finding.message


def test_a_payload_that_is_no_json_is_refused(written: Written) -> None:
    taken = payload_type(look_at(written(DIGIT)).meant().handlers["digit"])
    with pytest.raises(InvalidPayload, match="payload"):
        taken.read_json('{"prompt": ')


def test_all_faults_of_a_declaration_are_told_at_once(written: Written) -> None:
    text = """
    @restrike.endpoint(
        slots={"a": restrike.Slot(tasks=("text-to-smell",)), "b": "digits"},
        resources=restrike.Resources(cpus=-1, gpu_memory_bytes=5),
        compile=restrike.Compiled(slot="c", excluding=({"size": 3},)),
    )
    class Odd:
        def untyped(self, ctx, payload): ...
        def plain(self, ctx, payload: int): ...
        def lost(self, ctx, payload: Nowhere): ...
        async def later(self, ctx, payload: Ask): ...
        def more(self, ctx, payload: Ask, other: int): ...
    """
    with pytest.raises(InvalidEndpoint) as caught:
        look_at(written(text))
    told = " | ".join(caught.value.faults)
    for words in (
        "'text-to-smell' is none of",
        "slot 'b' is a str",
        "resources.cpus -1",
        "gpus is 0",
        "handler 'untyped' 'payload' is neither",
        "handler 'plain' 'payload' is neither",
        "handler 'lost' names a type that its file does not",
        "handler 'later' is no plain function",
        "handler 'more' takes (ctx, payload)",
        "compile names slot 'c'",
    ):
        assert words in told


def test_an_excluded_value_of_no_field_is_a_fault(written: Written) -> None:
    text = DIGIT.replace("Slot()}", 'Slot()}, compile=restrike.Compiled(excluding=({"size": 3},))')
    with pytest.raises(InvalidEndpoint, match="'size', which is no field"):
        look_at(written(text))


def test_a_file_without_endpoints_and_one_with_several(written: Written) -> None:
    with pytest.raises(NotFound, match="declares no endpoint"):
        load(written("", "none.py"))
    found = load(written(DIGIT + DIGIT.replace("def digit", "def other"), "two.py"))
    with pytest.raises(Refused, match="several endpoints; name one"):
        found.meant()
    assert set(found.endpoints) == {"digit", "other"}


def test_an_endpoint_that_the_file_does_not_have_is_unknown(written: Written) -> None:
    place = written(DIGIT)
    with pytest.raises(Unknown, match="did you mean 'digit'"):
        load(type(place)(file=place.file, shown=place.shown, name="digits")).meant()

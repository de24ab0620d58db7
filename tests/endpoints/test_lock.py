"""A lock that is held against the file: each sort of edit makes it stale, and names what changed."""

from __future__ import annotations

import json

import pytest

from restrike.endpoints.discovery import look_at
from restrike.endpoints.lock import StaleLock, check_lock, lock_path, write_lock
from restrike.errors import NotFound, Refused

from .conftest import DIGIT, HEAD, Written

OTHER = """
@restrike.endpoint()
def other(ctx, payload: Ask) -> int:
    return 1
"""


def test_a_file_as_it_was_locked_passes_and_the_lock_says_all(written: Written) -> None:
    found = look_at(written(DIGIT))
    path = write_lock(found)
    check_lock(found)
    said = json.loads(path.read_text())
    digit = said["endpoints"]["digit"]
    assert {"handlers", "slots", "resources", "compile", "source"} <= set(digit)
    assert digit["resources"] == {"cpus": 1, "gpu_memory_bytes": 0, "gpus": 0, "memory_bytes": 0}
    assert str(path.parent) not in path.read_text()
    before = path.read_bytes()
    write_lock(found)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("head", "text", "told"),
    [
        (HEAD, DIGIT.replace("steps=payload.steps", "steps=4") + OTHER, {"digit": "changed in source"}),
        (
            HEAD.replace("le=20", "le=30"),
            DIGIT + OTHER,
            {
                "digit": "changed in handlers, what its file has",
                "other": "changed in handlers, what its file",
            },
        ),
        (
            HEAD + "LIMIT = 3\n",
            DIGIT + OTHER,
            {"digit": "what its file has beside it", "other": "what its file has beside it"},
        ),
        (
            HEAD,
            DIGIT.replace("Slot()}", "Slot()}, resources=restrike.Resources(cpus=2)") + OTHER,
            {"digit": "changed in resources, source"},
        ),
        (HEAD, DIGIT, {"other": "is gone"}),
        (HEAD, DIGIT + OTHER + OTHER.replace("def other", "def third"), {"third": "is new"}),
    ],
)
def test_each_edit_names_the_function(written: Written, head: str, text: str, told: dict[str, str]) -> None:
    write_lock(look_at(written(DIGIT + OTHER)))
    with pytest.raises(StaleLock) as caught:
        check_lock(look_at(written(text, head=head)))
    found = {finding.path: finding.message for finding in caught.value.findings}
    assert set(found) == set(told)
    for name, words in told.items():
        assert words in found[name]
        assert name in caught.value.message


def test_a_comment_is_no_edit(written: Written) -> None:
    write_lock(look_at(written(DIGIT)))
    check_lock(look_at(written(DIGIT.replace("    model =", "    # so\n    model  ="))))


def test_no_lock_a_torn_one_and_one_of_another_time(written: Written) -> None:
    found = look_at(written(DIGIT))
    with pytest.raises(NotFound, match="has no lock"):
        check_lock(found)
    for text in ("{", "[]", '{"schema": 1}', '{"schema": 1, "endpoints": {"digit": 3}}', "[" * 100_000):
        lock_path(found.place.file).write_text(text)
        with pytest.raises(Refused, match="torn"):
            check_lock(found)
    lock_path(found.place.file).write_text('{"schema": 7}')
    with pytest.raises(Refused, match="schema 7"):
        check_lock(found)

"""The failure tree: its one table, the messages, and the place of foreign exceptions."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from restrike.errors import (
    RULES,
    Cancelled,
    Conflict,
    Crashed,
    Finding,
    NotFound,
    Refused,
    RestrikeError,
    Retry,
    Shortfall,
    Unknown,
    near_beside,
    rule_of,
    typed,
)


def leaves(cls: type[RestrikeError]) -> set[type[RestrikeError]]:
    """The class and all below it."""
    return {cls}.union(*(leaves(child) for child in cls.__subclasses__()))


def test_each_class_of_the_tree_has_a_rule() -> None:
    for cls in leaves(RestrikeError) - {RestrikeError}:
        assert any(parent in RULES for parent in cls.__mro__), cls


@pytest.mark.parametrize(
    ("error", "exit_code", "http_status", "retry"),
    [
        (Crashed("x"), 1, 500, Retry.BOUNDED),
        (Refused("x"), 2, 422, Retry.NEVER),
        (NotFound("x"), 2, 404, Retry.NEVER),
        (Unknown("card", "x", ()), 2, 404, Retry.NEVER),
        (Shortfall("x"), 3, 507, Retry.NEW_BUDGET),
        (Cancelled("x"), 4, 499, Retry.NEVER),
    ],
)
def test_the_table(error: RestrikeError, exit_code: int, http_status: int, retry: Retry) -> None:
    rule = rule_of(error)
    assert (rule.exit_code, rule.http_status, rule.retry) == (exit_code, http_status, retry)


def test_a_class_outside_the_table_follows_its_parent_and_the_root_is_a_crash() -> None:
    class Gone(NotFound):
        """It was here."""

    assert rule_of(Gone()) == RULES[NotFound]
    assert rule_of(RestrikeError("x")) == RULES[Crashed]


def test_exit_codes_differ_for_what_a_script_must_tell_apart() -> None:
    codes = {cls: rule.exit_code for cls, rule in RULES.items()}
    assert codes[Refused] == codes[NotFound] == codes[Conflict]
    assert len(set(codes.values())) == len(codes) - 2
    assert 0 not in codes.values()


def test_the_docstring_is_the_message_of_an_error_without_one() -> None:
    assert Cancelled().message == "The work was cancelled before it finished."


def test_an_unknown_name_lists_what_exists_and_the_nearest() -> None:
    error = Unknown("card", "shape", ["wan", "shapes"], hint="A folder works too.")
    assert error.message == (
        "unknown card 'shape', did you mean 'shapes'? Known: shapes, wan. A folder works too."
    )
    assert Unknown("card", "zzz", ["wan"]).message == "unknown card 'zzz'. Known: wan."
    assert Unknown("card", "x", []).message == "unknown card 'x'. None exist."
    assert Unknown("card", "WAN", ["wan"]).message == "unknown card 'WAN', did you mean 'wan'? Known: wan."
    assert "did you mean 'png'?" in Unknown("kind", "bmp", ["mp4", "png"], meant="png").message


def test_what_lies_beside_a_missing_path_is_asked_after(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "modal").touch()
    assert near_beside(f"{tmp_path}/modl/", Path.is_dir) == f"; did you mean '{tmp_path}/model'?"
    assert near_beside(f"{tmp_path}/modl", Path.is_file) == f"; did you mean '{tmp_path}/modal'?"
    assert near_beside(f"{tmp_path}/other", Path.is_dir) == ""
    assert near_beside(f"{tmp_path}/gone/model", Path.is_dir) == ""


def test_a_finding_names_its_field_once() -> None:
    assert str(Finding(path="width", message="width 9: only 8")) == "width 9: only 8"
    assert str(Finding(path="width", message="widths differ")) == "width: widths differ"
    # 'a' is the name of a step here and no part of the sentence.
    assert str(Finding(path="steps.a", message="a step is a mapping")) == "steps.a: a step is a mapping"


class OutOfMemoryError(RuntimeError):
    """Stands for torch's error of this name, which is known by its name alone."""


@pytest.mark.parametrize(
    ("foreign", "cls", "words"),
    [
        (KeyboardInterrupt(), Cancelled, "interrupted"),
        (MemoryError("2 GiB"), Shortfall, "out of memory: 2 GiB"),
        (OutOfMemoryError("CUDA"), Shortfall, "out of memory: CUDA"),
        (OSError(errno.ENOSPC, "full", "x.mp4"), Shortfall, "x.mp4"),
        (OSError(errno.EDQUOT, "quota", "x.mp4"), Shortfall, "x.mp4"),
        (PermissionError(errno.EACCES, "denied", "x.mp4"), Refused, "no permission: x.mp4"),
        (OSError(errno.EROFS, "read-only", "x.mp4"), Refused, "no permission: x.mp4"),
        (OSError(errno.EIO, "io", "x.mp4"), Crashed, "OSError"),
        (ZeroDivisionError("a\n  b"), Crashed, "ZeroDivisionError: a b"),
    ],
)
def test_foreign_exceptions_get_a_place(foreign: BaseException, cls: type[RestrikeError], words: str) -> None:
    error = typed(foreign)
    assert type(error) is cls
    assert words in error.message
    assert "\n" not in error.message


def test_an_error_of_ours_is_returned_as_it_is() -> None:
    error = Unknown("card", "x", [])
    assert typed(error) is error


def test_quoted_input_cannot_break_the_one_line() -> None:
    assert str(Refused("no folder at 'a\nb\r\nc'")) == "no folder at 'a b c'"

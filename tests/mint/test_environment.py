"""The compiler's environment: pinned before a child starts, watched while it works."""

from __future__ import annotations

from pathlib import Path

import pytest

from restrike.mint.environment import EnvironmentSeal, child_environment, read_by_compilers
from restrike.mint.refusals import EnvironmentChanged, Subject

SUBJECT = Subject(card="digits", recipe="aot")


def test_a_child_gets_no_variable_of_a_compiler_but_those_that_are_pinned(tmp_path: Path) -> None:
    given = {
        "HOME": "/home/x",
        "PATH": "/bin",
        "PYTHONPATH": "/code",
        "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
        "TORCH_COMPILE_DEBUG": "1",
        "AOT_INDUCTOR_DEBUG_COMPILE": "1",
        "CXXFLAGS": "-O0",
        "OMP_NUM_THREADS": "64",
        "CXX": "clang++",
    }
    found = child_environment(given, scratch=tmp_path, threads=2, compiler="/bin/g++")
    assert {name: found[name] for name in ("HOME", "PATH", "PYTHONPATH")} == {
        "HOME": "/home/x",
        "PATH": "/bin",
        "PYTHONPATH": "/code",
    }
    assert not {"TORCHINDUCTOR_MAX_AUTOTUNE", "TORCH_COMPILE_DEBUG", "CXXFLAGS"} & found.keys()
    assert (found["CXX"], found["OMP_NUM_THREADS"]) == ("/bin/g++", "2")
    assert found["TORCHINDUCTOR_CACHE_DIR"].startswith(str(tmp_path))
    assert given["OMP_NUM_THREADS"] == "64"


def test_what_decides_nothing_of_a_compilation_is_not_watched() -> None:
    assert read_by_compilers({"HOME": "x", "LANG": "C", "TORCHINDUCTOR_FREEZING": "1"}) == {
        "TORCHINDUCTOR_FREEZING": "1"
    }


def test_a_variable_that_changes_while_it_compiles_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_FREEZING", raising=False)
    seal = EnvironmentSeal()
    monkeypatch.setenv("HOME", "/elsewhere")
    seal.check(SUBJECT)
    monkeypatch.setenv("TORCHINDUCTOR_FREEZING", "1")
    with pytest.raises(EnvironmentChanged, match="TORCHINDUCTOR_FREEZING changed from None to '1'"):
        seal.check(SUBJECT)

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from restrike.errors import NotFound, Refused
from restrike.workflow import yaml_nodes
from restrike.workflow.findings import Findings, InvalidWorkflow
from restrike.workflow.loading import MAX_FILE_BYTES, load_file, load_text, plain
from restrike.workflow.yaml_nodes import MAX_VALUES, read_yaml


def faults(text: str, *, as_json: bool = False) -> dict[str, str]:
    with pytest.raises(InvalidWorkflow) as caught:
        load_text(text, as_json=as_json)
    return {finding.path: finding.message for finding in caught.value.findings}


# What YAML says.


def test_scalars_follow_the_core_schema_of_yaml_1_2() -> None:
    text = """
    a: [yes, no, on, off, 2001-12-14, 12:30:45, 1_000]
    b: [true, False, ~, null, 010, 0x1F, 0o17, -3]
    c: [1.5, .5, 1e3, -.inf, "5", '5', !!str 5, 1.]
    d:
    """
    assert load_text(text) == {
        "a": ["yes", "no", "on", "off", "2001-12-14", "12:30:45", "1_000"],
        "b": [True, False, None, None, 10, 31, 15, -3],
        "c": [1.5, 0.5, 1000.0, float("-inf"), "5", "5", "5", 1.0],
        "d": None,
    }


def test_keys_are_texts_as_they_are_written() -> None:
    assert load_text("{1: a, true: b, 2001-12-14: c}") == {"1": "a", "true": "b", "2001-12-14": "c"}


def test_a_mapping_can_be_merged_into_others() -> None:
    text = """
    base: &base {steps: 4, guidance: 2}
    more: &more {steps: 9, shift: 1}
    a: {<<: *base, guidance: 3}
    b: {<<: [*base, *more]}
    """
    tree = load_text(text)
    assert tree["a"] == {"steps": 4, "guidance": 3}
    assert tree["b"] == {"steps": 4, "guidance": 2, "shift": 1}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(categories=["L", "N", "P", "Zs"], max_codepoint=0xD000)),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text("abcdef", min_size=1), json_values, max_size=4))
def test_json_is_read_alike_as_json_and_as_yaml(tree: dict[str, Any]) -> None:
    text = json.dumps(tree)
    assert load_text(text, as_json=True) == tree
    assert load_text(text) == tree
    assert plain(tree) == tree


def test_python_and_libyaml_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x [1, two, 3.5, null]\nb:\n  <<: {c: *x}\n  d: |\n    text\n    more\n"
    assert yaml.__with_libyaml__
    fast = load_text(text)
    monkeypatch.setattr(yaml_nodes.yaml, "__with_libyaml__", False)
    assert load_text(text) == fast


# Where it is wrong.


def test_keys_that_are_there_twice_are_all_named() -> None:
    text = "steps:\n  a: {task: x, task: y}\n  b: {task: x}\n  b: {task: x}\n"
    assert faults(text) == {
        "steps.a.task": "line 2: the key is there twice",
        "steps.b": "line 4: the key is there twice",
    }
    assert faults('{"steps": {"a": 1, "a": 2}, "b": [{"c": 1, "c": 1}]}', as_json=True) == {
        "steps.a": "the key is there twice",
        "b[0].c": "the key is there twice",
    }


def test_broken_text_is_named_by_line_and_column() -> None:
    assert list(faults("a: [1, 2\nb: 3\n")) == ["line 2, column 2"]
    assert list(faults('{"a": 1,}', as_json=True)) == ["line 1, column 9"]


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system ['true']",
        "!!binary aGk=",
        "!!set {a}",
        "!custom x",
        "!!timestamp 2001-12-14",
    ],
)
def test_no_object_is_built(tag: str) -> None:
    ((path, message),) = faults(f"a: 1\nb: {tag}\n").items()
    assert path == "b"
    assert message.startswith("line 2: a workflow holds plain values, not !")


def test_what_is_no_mapping_is_refused() -> None:
    assert faults("[1]") == {"": "a workflow is a mapping with steps"}
    assert faults("") == {"": "a workflow is a mapping with steps"}
    assert faults("? [a, b]\n: 1\n") == {"": "line 1: a key is one word or text"}


def test_two_documents_are_one_too_many() -> None:
    assert "not YAML" in next(iter(faults("a: 1\n---\nb: 2\n").values()))


def test_a_reference_with_brackets_that_lacks_its_quotes_is_explained() -> None:
    (message,) = faults("arguments: {clips: $step.many[*]}\n").values()
    assert message.endswith('a reference with brackets is in quotes: "$step.many[*]"')
    assert load_text('arguments: {clips: "$step.many[*]"}')
    assert load_text("arguments:\n  clips: $step.many[*]\n")
    assert "quotes" not in next(iter(faults("arguments: {clips: a[*]}\n").values()))


# What is hostile.


def bomb(levels: int = 12) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


def merge_bomb(levels: int = 40) -> str:
    lines = ["m0: &m0 {a: 1}"]
    return "\n".join(lines + [f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}" for n in range(1, levels)])


HOSTILE = {
    "alias bomb": bomb(),
    "merge bomb": merge_bomb(),
    "alias inside itself": "a: &a [1, *a]",
    "mapping inside itself": "a: &a {b: *a}",
    "deep flow": "a: " + "[" * 5000 + "]" * 5000,
    "deep enough": "a: " + "[" * 70 + "]" * 70,
    "many": "a: [" + "1," * 1_900_000 + "]",
    "long integer": "a: " + "9" * 5000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused_at_once(name: str) -> None:
    began = time.perf_counter()
    assert faults(HOSTILE[name])
    assert time.perf_counter() - began < 5


def test_an_alias_that_is_used_often_but_stands_for_little_is_no_bomb() -> None:
    assert load_text("a: &a [1, 2]\nb: [" + "*a," * 1000 + "]")["b"][999] == [1, 2]


def test_hostile_json_is_refused_at_once() -> None:
    assert faults('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", as_json=True)
    assert faults('{"a":' + "[" * 70 + "]" * 70 + "}", as_json=True)
    assert faults('{"a": [' + "1," * MAX_VALUES + "1]}", as_json=True)


def test_a_tree_of_a_program_is_copied_and_must_be_plain() -> None:
    written = {"steps": {"a": [1, (2, 3)]}}
    tree = plain(written)
    written["steps"]["a"].append(4)
    assert tree == {"steps": {"a": [1, [2, 3]]}}
    with pytest.raises(InvalidWorkflow, match=r"steps.a: a workflow holds plain values, not a object"):
        plain({"steps": {"a": object()}})


@pytest.mark.parametrize(
    "graph", [{"3": {"class_type": "KSampler", "inputs": {}}}, {"nodes": [], "links": [], "version": 0.4}]
)
def test_a_graph_of_comfyui_is_told_in_one_finding(graph: dict[str, Any]) -> None:
    for read in (plain, lambda tree: load_text(json.dumps(tree), as_json=True)):
        with pytest.raises(InvalidWorkflow, match=r"^this is a graph of ComfyUI"):
            read(graph)
    assert plain({"steps": {"a": {"class_type": "x"}}}) == {"steps": {"a": {"class_type": "x"}}}
    assert plain({}) == {}


# Files.


def test_files_are_read_by_their_suffix(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}')
    (tmp_path / "a.yaml").write_text("a: 1")
    assert load_file(tmp_path / "a.json") == load_file(tmp_path / "a.yaml") == {"a": 1}


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no workflow file"):
        load_file(tmp_path / "gone.yaml")
    (tmp_path / "film.yaml").touch()
    with pytest.raises(NotFound, match=r"did you mean '.*/film.yaml'\?"):
        load_file(tmp_path / "flim.yaml")
    with pytest.raises(NotFound, match=r"'digits' is a card; say: restrike generate PROMPT --card digits"):
        load_file(Path("digits"))
    with pytest.raises(Refused, match="is a folder"):
        load_file(tmp_path)
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refused, match="not UTF-8"):
        load_file(tmp_path / "bytes.yaml")
    (tmp_path / "poster.py").write_text("from restrike.endpoints import endpoint\n")
    with pytest.raises(Refused, match=r"is Python; endpoints in it are checked by: restrike endpoints check"):
        load_file(tmp_path / "poster.py")
    (tmp_path / "large.yaml").write_bytes(b" " * (MAX_FILE_BYTES + 1))
    with pytest.raises(Refused, match="too large"):
        load_file(tmp_path / "large.yaml")


def test_findings_are_kept_while_the_rest_is_read() -> None:
    findings = Findings()
    assert read_yaml("a: !x 1\nb: 2", findings) == {"a": None, "b": 2}
    assert [finding.path for finding in findings.found] == ["a"]


LIGHT = """
import sys
from restrike.workflow.session import Session
from restrike.workflow.source import read_text
from restrike.workflow.expansion import Machine, expand
from restrike.workflow.tasks.registry import Tasks
from pathlib import Path
source = read_text('''
steps:
  a: {generate: digits, arguments: {prompt: a seven}}
  b: {task: picture.resize, arguments: {clip: $step.a, width: 16}}
''')
expand(source, {}, Path("."), Machine(tasks=Tasks(), device="cpu"))
heavy = [name for name in ("torch", "diffusers", "transformers", "scipy") if name in sys.modules]
assert not heavy, heavy
"""


def test_reading_and_expanding_import_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Each fact that decides a cell moves its key, and no other fact does."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mint.cells import FACTS, HOST, INGRESS, STACK, TARGET, Making, verified
from restrike.errors import Refused
from restrike.keys import Key
from restrike.mint.cell import host as hosts
from restrike.mint.cell.facts import Ingress, TensorSpec
from restrike.mint.cell.host import cpu_target, this_host
from restrike.mint.cell.key import cell_key
from restrike.mint.cell.keyring import Keyring


def key(**changed: Any) -> Key:
    """The key of the good cell, with some of its parts changed."""
    parts = {
        "graph": FACTS.graph,
        "ingress": INGRESS,
        "stack": STACK,
        "target": TARGET,
        "layout": "contiguous",
        "options": dict(FACTS.options),
    }
    return cell_key(**parts | changed)


def ingress(**changed: Any) -> Ingress:
    """The good call with its first tensor changed."""
    first, *rest = INGRESS.tensors
    return Ingress(tensors=(replace(first, **changed), *rest))


AXES = {
    "graph": ({"graph": "6" * 64}, "graph"),
    "tensor's name": ({"ingress": ingress(name="latent")}, "ingress.tensors[0].name"),
    "tensor's length": ({"ingress": ingress(shape=((1, 4), 4, 8, 16))}, "ingress.tensors[0].shape[3]"),
    "tensor's range": ({"ingress": ingress(shape=((1, 2), 4, 8, 8))}, "ingress.tensors[0].shape[0][1]"),
    "tensor's dtype": ({"ingress": ingress(dtype="bfloat16")}, "ingress.tensors[0].dtype"),
    "recipe": ({"stack": replace(STACK, recipe="dynamo")}, "stack.recipe"),
    "torch": ({"stack": replace(STACK, torch="2.13.1+cpu")}, "stack.torch"),
    "torch's build": ({"stack": replace(STACK, torch="2.13.0+cu130")}, "stack.torch"),
    "triton": ({"stack": replace(STACK, triton="3.5.0")}, "stack.triton"),
    "python": ({"stack": replace(STACK, python="3.12")}, "stack.python"),
    "wrapper": ({"stack": replace(STACK, epoch="0")}, "stack.epoch"),
    "device": ({"target": replace(TARGET, kind="cuda")}, "target.kind"),
    "machine": ({"target": replace(TARGET, machine="aarch64")}, "target.machine"),
    "processor": ({"target": replace(TARGET, cpu="AVX512")}, "target.cpu"),
    "gpu": ({"target": replace(TARGET, gpu="sm_90")}, "target.gpu"),
    "layout": ({"layout": "channels_last"}, "layout"),
    "an option": ({"options": {"max_autotune": True}}, "options.max_autotune"),
    "one more option": ({"options": {"max_autotune": False, "fast": True}}, "options.fast"),
}


@pytest.mark.parametrize("axis", AXES)
def test_an_axis_moves_the_key_and_is_named(axis: str) -> None:
    changed, path = AXES[axis]
    other = key(**changed)
    assert other.digest != key().digest
    assert [difference.path for difference in key().diff(other)] == [path]


def test_equal_facts_have_one_key_whatever_the_order_of_options() -> None:
    one, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert key(options=one).digest == key(options=other).digest


def test_a_range_of_one_length_is_not_that_length() -> None:
    # A graph with a symbol for an axis is another graph than one with a number.
    assert (
        key(ingress=ingress(shape=(1, 4, 8, 8))).digest
        != key(ingress=ingress(shape=((1, 1), 4, 8, 8))).digest
    )


OUT = {
    "weights": {"constants": ()},
    "compiler": {"compiler": "clang 18"},
    "how long it took": {"phases": ()},
    "proof": {"proof": None},
}


@pytest.mark.parametrize("fact", OUT)
def test_a_fact_that_decides_nothing_leaves_the_key(fact: str, tmp_path: Path, ring: Keyring) -> None:
    signer = ring.signer()
    here = verified(Making().sealed(tmp_path / "here" / "a.cell", signer), ring)
    # Elsewhere, under another name, signed by another key, with other members.
    other = replace(Making(members={"other.cpp": b"int x;"}).with_facts(**OUT[fact]))
    there = verified(other.sealed(tmp_path / "there" / "model.cell", ring.signer(ring.new("b").name)), ring)
    assert here[0].header.key == there[0].header.key == key().digest
    assert here[0].header.manifest != there[0].header.manifest


def test_the_environment_and_packages_off_the_stack_leave_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    target = cpu_target()
    before = this_host(target).stack("aot")
    for name in ("ATEN_CPU_CAPABILITY", "TORCHINDUCTOR_CACHE_DIR", "CXX", "HOME", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "default")
    real = hosts.version
    # Every package is upgraded, but torch, whose version is read from its own files.
    monkeypatch.setattr(hosts, "version", lambda package: f"9{real(package)}")
    assert cpu_target() == target
    assert this_host(target).stack("aot") == before
    assert os.environ["HOME"] == "default"


def test_python_decides_only_where_the_recipe_keeps_python_objects() -> None:
    newer = replace(HOST, python="3.12")
    assert newer.stack("aot") == HOST.stack("aot")
    assert newer.stack("dynamo") != HOST.stack("dynamo")


def test_triton_decides_only_on_a_gpu() -> None:
    newer = replace(HOST, triton="3.5.0")
    assert newer.stack("aot") == HOST.stack("aot")
    cuda = replace(TARGET, kind="cuda", gpu="sm_90")
    assert replace(newer, target=cuda).stack("aot") != replace(HOST, target=cuda).stack("aot")


def test_the_key_is_known_before_anything_is_compiled(tmp_path: Path, ring: Keyring) -> None:
    known = key().digest
    opened, _ = verified(Making().sealed(tmp_path / "a.cell", ring.signer()), ring)
    assert opened.header.key == known


def test_a_call_lists_its_tensors_by_name_each_once() -> None:
    first, second = INGRESS.tensors
    for wrong in ((second, first), (first, first)):
        with pytest.raises(Refused, match="listed by name"):
            Ingress(tensors=wrong)


def test_an_axis_that_cannot_exist_is_refused() -> None:
    for shape in ((-1,), ((4, 1),)):
        with pytest.raises(Refused, match="tensor 'x'"):
            TensorSpec(name="x", shape=shape, dtype="float32")

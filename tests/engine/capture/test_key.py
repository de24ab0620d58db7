"""Each part of the key is needed: without any one of them a graph answers for a step that is not its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from restrike.engine.capture import capturer as capturers
from restrike.engine.capture.backend import Backend
from restrike.engine.capture.capturer import Capturer
from restrike.engine.capture.key import CaptureKey, Signature, key_of, layouts, signature_of
from restrike.engine.capture.numerics import numerics
from restrike.engine.capture.tape import TapeBackend
from restrike.loops.contract import Forward, Tensors

from .lab import ALWAYS, Denoiser, Lab
from .test_weights import a_hook, a_parameter, folding, sync_in_place


def fresh() -> Lab:
    return Lab(TapeBackend(torch.device("cpu")))


def minus(forward: Forward, inputs: Tensors) -> Tensors:
    return {"latent": inputs["latent"] - forward("cond", inputs)}


def own_graph(lab: Lab, *given: Any, **changes: Any) -> None:
    """The next step is no replay of what was armed, and equals eager, which `told` checks."""
    assert lab.told(*given, **changes) == ["warming"]


def check_backend() -> None:
    """Two devices never share a graph, even where all else is equal."""
    lab = fresh()
    lab.arm()

    class Elsewhere(TapeBackend):
        identity = ("cpu", 1, "another")  # pyright: ignore[reportAssignmentType]

    lab.capturer.backend = Elsewhere(torch.device("cpu"))
    own_graph(lab)


def check_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    from . import lab as module

    lab = fresh()
    lab.arm()
    monkeypatch.setattr(module, "SCOPE", ("lab", "another loop"))
    own_graph(lab)


def check_component() -> None:
    lab = fresh()
    lab.arm()
    own_graph(lab, component="another")


def check_inputs() -> None:
    lab = fresh()
    lab.arm()
    own_graph(lab, tokens=5)


def check_structure() -> None:
    lab = fresh()
    lab.arm()
    own_graph(lab, minus, structure=("minus",))


def check_numerics() -> None:
    lab = fresh()
    lab.arm()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        own_graph(lab)


def check_storages() -> None:
    lab = fresh()
    lab.arm()
    assert isinstance(lab.module, Denoiser)
    a_parameter(lab.module)
    own_graph(lab)


def check_code() -> None:
    lab = fresh()
    lab.arm()
    assert isinstance(lab.module, Denoiser)
    a_hook(lab.module)
    own_graph(lab)


def check_weights_version() -> None:
    version = [0]
    lab = folding(lambda component: version[0])
    lab.arm()
    sync_in_place(lab.module, 1)
    version[0] = 1
    own_graph(lab)


PARTS = [
    *(each.name for each in fields(Signature)),
    *(each.name for each in fields(CaptureKey) if each.name != "signature"),
]
CHECKS: dict[str, Callable[..., None]] = {
    name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")
}


def test_every_part_has_its_check() -> None:
    assert sorted(CHECKS) == sorted(PARTS)


def check(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CHECKS[part](*([monkeypatch] if part == "scope" else []))


@pytest.mark.parametrize("part", PARTS)
def test_a_change_of_a_part_is_another_graph(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(part, monkeypatch)


@pytest.mark.parametrize("part", PARTS)
def test_without_the_part_a_wrong_graph_answers(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutation: the part is the same for all steps."""

    def signature(*given: Any) -> Signature:
        made = signature_of(*given)
        return replace(made, **{part: ()}) if hasattr(made, part) else made

    def key(*given: Any) -> CaptureKey:
        made = key_of(*given)
        return replace(made, **{part: ()}) if hasattr(made, part) else made

    monkeypatch.setattr(capturers, "signature_of", signature)
    monkeypatch.setattr(capturers, "key_of", key)
    with pytest.raises((AssertionError, RuntimeError)):
        check(part, monkeypatch)


SWITCHES: dict[str, Callable[[bool], Any]] = {
    "deterministic": lambda on: torch._C._set_deterministic_algorithms(on, warn_only=False),
    "threads": lambda on: torch.set_num_threads(2 if on else 1),
    "matmul precision": lambda on: torch.set_float32_matmul_precision("high" if on else "highest"),
    "matmul precision of a backend": lambda on: setattr(
        torch.backends.mkldnn.matmul, "fp32_precision", "bf16" if on else "none"
    ),
    "precision of all": lambda on: setattr(torch.backends, "fp32_precision", "ieee" if on else "none"),
    "flash attention": lambda on: torch.backends.cuda.enable_flash_sdp(not on),
    "math attention": lambda on: torch.backends.cuda.enable_math_sdp(not on),
    "default dtype": lambda on: torch.set_default_dtype(torch.float64 if on else torch.float32),
    "warnings about determinism": lambda on: torch._C._set_deterministic_algorithms(False, warn_only=on),
    "gradients": lambda on: torch.set_grad_enabled(not on),
    "kernels of oneDNN": lambda on: torch.backends.mkldnn.set_flags(not on),
    "attention that saves memory": lambda on: torch.backends.cuda.enable_mem_efficient_sdp(not on),
    "attention of cuDNN": lambda on: torch.backends.cuda.enable_cudnn_sdp(not on),
}


@pytest.fixture
def threads() -> Iterator[None]:
    """Torch's threads, which are the machine's own business, as they were."""
    count = torch.get_num_threads()
    yield
    torch.set_num_threads(count)


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.usefixtures("threads")
def test_each_switch_of_the_process_is_in_the_key(name: str) -> None:
    lab = fresh()
    plan = lab.plan()
    SWITCHES[name](False)
    before = signature_of(lab.backend, ("x",), plan)
    SWITCHES[name](True)
    try:
        assert signature_of(lab.backend, ("x",), plan) != before
    finally:
        SWITCHES[name](False)
    assert signature_of(lab.backend, ("x",), plan) == before


CUDA_SWITCHES: dict[str, tuple[Any, str]] = {
    "sums in float16": (torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
    "sums in bfloat16": (torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
    "cuDNN": (torch.backends.cudnn, "enabled"),
    "determinism of cuDNN": (torch.backends.cudnn, "deterministic"),
    "search of cuDNN": (torch.backends.cudnn, "benchmark"),
}


@pytest.mark.parametrize("name", CUDA_SWITCHES)
def test_each_switch_of_a_gpu_is_in_its_key_and_in_no_other(name: str) -> None:
    holder, switch = CUDA_SWITCHES[name]
    was = getattr(holder, switch)
    on_gpu, on_cpu = (numerics(torch.device(kind)) for kind in ("cuda", "cpu"))
    setattr(holder, switch, not was)
    try:
        assert numerics(torch.device("cuda")) != on_gpu
        assert numerics(torch.device("cpu")) == on_cpu
    finally:
        setattr(holder, switch, was)


def test_each_property_of_an_input_is_in_the_key() -> None:
    plain = torch.zeros(2, 3)
    others = {
        "name": {"y": plain},
        "shape": {"x": torch.zeros(3, 3)[:, :2]},
        "stride": {"x": torch.zeros(3, 2).t()},
        "dtype": {"x": plain.to(torch.int32)},
        "device": {"x": plain.to("meta")},
    }
    assert plain.stride() == others["shape"]["x"].stride()
    layout = layouts({"x": plain})
    assert layout == layouts({"x": torch.ones(2, 3)})
    assert [name for name, given in others.items() if layouts(given) == layout] == []


def test_inference_mode_is_in_the_key() -> None:
    lab = fresh()
    plan = lab.plan()
    with torch.no_grad():
        before = signature_of(lab.backend, ("x",), plan)
    with torch.inference_mode():
        assert signature_of(lab.backend, ("x",), plan) != before


class Nowhere:
    """A backend that says where it is and captures nothing."""

    folds_values = False

    def __init__(self, index: int, architecture: str, name: str = "tape") -> None:
        self.name, self.identity = name, ("cuda", index, architecture)
        self.device = torch.device("cpu")


@pytest.mark.parametrize("where", [(1, "sm_90"), (0, "sm_100"), (0, "sm_90", "cuda")])
def test_device_architecture_and_backend_are_in_the_key(where: tuple[Any, ...]) -> None:
    plan = fresh().plan()

    def made(*where: Any) -> Signature:
        backend: Backend = Nowhere(*where)  # pyright: ignore[reportAssignmentType]
        return signature_of(backend, ("x",), plan)

    assert made(*where) != made(0, "sm_90") == made(0, "sm_90")


def test_looking_up_an_armed_graph_costs_little() -> None:
    """A look at 200 layers, in a generous bound for a busy machine; docs/captures.md has the figures."""
    layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(200)))
    lab = fresh()
    lab.module = torch.nn.ModuleList([lab.module, layers])
    capturer = Capturer(lab.backend, ALWAYS)
    plan = lab.plan(call=lambda module, inputs: inputs["latent"])
    seconds: list[float] = []
    with torch.inference_mode():
        for _ in range(20):
            began = time.perf_counter()
            capturer.run(("x",), plan, lab.module, lambda inputs: {"latent": inputs["latent"] * 2})
            seconds.append(time.perf_counter() - began)
    assert capturer.counters.replays == 17
    assert min(seconds[4:]) < 0.005

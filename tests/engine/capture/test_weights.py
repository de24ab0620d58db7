"""Weights that change under a graph: in place it follows, replaced or moved it is let go at once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from restrike.engine.capture.backend import Graph, Step
from restrike.engine.capture.capturer import Capturer
from restrike.engine.capture.contents import named_tensors
from restrike.engine.capture.tape import TapeBackend
from restrike.loops.contract import Tensors

from .lab import ALWAYS, SCOPE, Denoiser, Lab


def sync_in_place(module: nn.Module, seed: int) -> None:
    """New values in the same storages."""
    fresh = Denoiser(seed).state_dict()
    with torch.no_grad():
        for name, each in named_tensors(module).items():
            each.copy_(fresh[name])


def replace_all(module: nn.Module, seed: int) -> None:
    """New values in new storages."""
    for part in module.modules():
        for name, each in list(part._parameters.items()):
            if each is not None:
                part._parameters[name] = nn.Parameter(each.detach().clone() + seed, requires_grad=False)


def outputs(lab: Lab) -> Tensors:
    lab.steps = 0
    plan = lab.plan()
    with torch.inference_mode():
        return lab.capturer.run(SCOPE, plan, lab.module, lab.eager(plan)).outputs


def test_weights_that_are_synced_in_place_are_read_by_the_same_graph(lab: Lab) -> None:
    lab.arm()
    before = outputs(lab)
    sync_in_place(lab.module, 1)
    assert lab.told(count=3) == ["replay"] * 3
    assert not torch.equal(outputs(lab)["latent"], before["latent"])
    assert lab.capturer.counters.captures == 1
    assert lab.capturer.counters.evictions == {}


@dataclass
class Scaled:
    """A processor, as libraries put them on their modules."""

    factor: float

    def __call__(self, tensor: Tensor) -> Tensor:
        return tensor * self.factor


class Hook:
    """A hook that can be watched as it goes."""

    def __call__(self, module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        return output * 2


class Processed(Denoiser):
    """Obeys all that a module may carry beside its tensors and submodules."""

    gain = 1.0
    before: Callable[[Tensor], Tensor] | None
    after: Scaled

    def __init__(self) -> None:
        super().__init__()
        self.before = None
        self.after = Scaled(1.5)

    def forward(self, latent_BND: Tensor, timestep_B: Tensor) -> Tensor:
        given = self.before(latent_BND) if self.before else latent_BND
        return self.after(super().forward(given, timestep_B)) * self.gain


class Doubled(Processed):
    """Another class of the same parts."""

    def forward(self, latent_BND: Tensor, timestep_B: Tensor) -> Tensor:
        return super().forward(latent_BND, timestep_B) * 2


def a_parameter(module: Denoiser) -> None:
    module.out.weight = nn.Parameter(module.out.weight * 2, requires_grad=False)


def the_data_of_a_parameter(module: Denoiser) -> None:
    module.out.weight.data = module.out.weight.data * 2


def the_layout_of_a_parameter(module: Denoiser) -> None:
    module.out.weight.data = module.out.weight.data.t()


def a_buffer(module: Denoiser) -> None:
    module.shift = module.shift.clone()


def a_submodule(module: Denoiser) -> None:
    module.out = Denoiser(5).out.to(module.shift.device).requires_grad_(False)


def a_hook(module: Denoiser) -> None:
    module.out.register_forward_hook(lambda module, inputs, output: output * 2)


def a_forward(module: Denoiser) -> None:
    forward = module.out.forward
    module.out.forward = lambda given: forward(given) * 2


def the_mode(module: Denoiser) -> None:
    module.train()


def an_object(module: Processed) -> None:
    module.after = Scaled(2.0)


def what_was_none(module: Processed) -> None:
    module.before = torch.sin


def what_the_class_says(module: Processed) -> None:
    module.gain = 2.0


def what_it_calls_itself(module: Processed) -> None:
    module.__class__ = Doubled


CHANGES: dict[str, tuple[Callable[[Any], None], str]] = {
    each.__name__: (each, reason)
    for reason, changes in {
        "weights replaced": (a_parameter, the_data_of_a_parameter, the_layout_of_a_parameter, a_buffer),
        "module changed": (
            a_submodule,
            a_hook,
            a_forward,
            the_mode,
            an_object,
            what_was_none,
            what_the_class_says,
            what_it_calls_itself,
        ),
    }.items()
    for each in changes
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_replaced_lets_the_graph_go_at_once(lab: Lab, name: str) -> None:
    change, reason = CHANGES[name]
    lab.module = Processed().to(lab.backend.device).eval().requires_grad_(False)
    lab.arm()
    assert isinstance(lab.module, Denoiser)
    change(lab.module)
    assert lab.told(count=5) == ["warming", "proving", "proving", "replay", "replay"]
    counters = lab.capturer.counters
    assert (counters.captures, counters.graphs) == (2, 1)
    assert counters.evictions == {reason: 1}


def patched(module: Processed, latent_BND: Tensor, timestep_B: Tensor) -> Tensor:
    return Denoiser.forward(module, latent_BND, timestep_B) * 3


def test_a_class_that_is_patched_lets_the_graph_go(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.module = Processed().to(lab.backend.device).eval().requires_grad_(False)
    lab.arm()
    monkeypatch.setattr(Processed, "forward", patched)
    assert lab.told(count=4) == ["warming", "proving", "proving", "replay"]


def test_a_hook_on_all_modules_lets_the_graph_go(lab: Lab) -> None:
    lab.arm()
    hook = register_module_forward_hook(lambda module, inputs, output: output * 2)
    try:
        assert lab.told(count=4) == ["warming", "proving", "proving", "replay"]
    finally:
        hook.remove()
    assert lab.told()[0] == "warming"


def test_while_a_graph_lives_no_other_code_comes_to_have_the_identity_of_its_own(lab: Lab) -> None:
    lab.module = Processed().to(lab.backend.device).eval().requires_grad_(False)
    assert isinstance(lab.module, Processed)
    hook = lab.module.out.register_forward_hook(Hook())
    held = [weakref.ref(each) for each in (lab.module.after, *lab.module.out._forward_hooks.values())]
    lab.arm()
    hook.remove()
    lab.module.after = Scaled(3.0)
    gc.collect()
    assert all(each() is not None for each in held)
    lab.capturer.evict(None, "test")
    gc.collect()
    assert all(each() is None for each in held)


def test_another_module_of_the_same_shape_lets_the_graph_go(lab: Lab) -> None:
    lab.arm()
    lab.module = Denoiser(7).to(lab.backend.device).requires_grad_(False)
    assert lab.told(count=4)[-1] == "replay"
    assert lab.capturer.counters.evictions == {"module changed": 1}


def test_a_component_is_evicted_alone(lab: Lab) -> None:
    lab.arm()
    lab.arm(component="other")
    lab.capturer.evict("other", "sleep")
    assert lab.capturer.counters.evictions == {"sleep": 1}
    assert lab.told() == ["replay"]
    assert lab.told(component="other") == ["warming"]


def test_all_are_evicted_and_nothing_is_held(lab: Lab) -> None:
    lab.arm()
    held = weakref.ref(lab.module)
    storage = weakref.ref(next(lab.module.parameters()).untyped_storage())
    lab.capturer.evict(None, "unloaded")
    counters = lab.capturer.counters
    assert (counters.graphs, counters.bytes, counters.evictions) == (0, 0, {"unloaded": 1})
    lab.module = nn.Identity()
    gc.collect()
    assert held() is None
    assert storage() is None


def test_what_was_blocked_may_be_tried_again_after_an_eviction(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(type(lab.backend), "capture", None)
        assert lab.told(count=2)[1].startswith("blocked: ")
    assert lab.told()[0].startswith("blocked: ")
    lab.capturer.evict("denoiser", "component swapped")
    lab.arm()


def test_while_a_graph_lives_nothing_else_comes_to_lie_where_it_reads(lab: Lab) -> None:
    lab.arm()
    assert isinstance(lab.module, Denoiser)
    address = lab.module.out.weight.data_ptr()
    lab.module.out.weight = None  # pyright: ignore[reportAttributeAccessIssue]
    gc.collect()
    made = [torch.ones(8, 8, device=lab.backend.device) for _ in range(100)]
    assert address not in {each.data_ptr() for each in made}


def sizes(capturer: Capturer) -> tuple[int, ...]:
    counters = capturer.counters
    return (
        counters.graphs,
        counters.bytes,
        len(capturer._entries),
        len(capturer._contents._seen),
        len(counters.eager_breaks),
        len(counters.evictions),
    )


def tensors_alive() -> int:
    gc.collect()
    return sum(issubclass(type(each), Tensor) for each in gc.get_objects())


@pytest.mark.parametrize("change", [sync_in_place, replace_all])
def test_nothing_grows_over_a_thousand_syncs(lab: Lab, change: Callable[[nn.Module, int], None]) -> None:
    lab.arm()
    change(lab.module, 0)
    lab.arm()
    before, alive = sizes(lab.capturer), tensors_alive()
    for seed in range(1000):
        change(lab.module, seed)
        for _ in range(4 if seed % 50 == 0 else 1):
            outputs(lab)
    lab.arm()
    assert sizes(lab.capturer) == before
    assert tensors_alive() <= alive


@dataclass
class Folded:
    """A graph that bakes in what the weights were."""

    inner: Graph
    module: nn.Module

    def __post_init__(self) -> None:
        self._was = {name: each.clone() for name, each in named_tensors(self.module).items()}

    @property
    def outputs(self) -> Tensors:
        return self.inner.outputs

    @property
    def bytes(self) -> int:
        return self.inner.bytes

    def replay(self) -> None:
        now = {name: each.clone() for name, each in named_tensors(self.module).items()}
        self._put(self._was)
        self.inner.replay()
        self._put(now)

    def free(self) -> None:
        self.inner.free()

    def _put(self, values: Tensors) -> None:
        for name, each in named_tensors(self.module).items():
            each.copy_(values[name])


@dataclass(frozen=True)
class FoldingTape(TapeBackend):
    """A backend whose graphs are right for one version of the weights."""

    module: Any = None

    folds_values = True  # pyright: ignore[reportAssignmentType, reportIncompatibleVariableOverride]

    def capture(self, step: Step, inputs: Tensors) -> Any:
        return Folded(super().capture(step, inputs), self.module)


def folding(version_of: Callable[[str], int]) -> Lab:
    module = Denoiser()
    lab = Lab(FoldingTape(torch.device("cpu"), module=module), module=module)
    object.__setattr__(lab.backend, "folds_values", True)
    lab.capturer = Capturer(lab.backend, ALWAYS, version_of=version_of)
    return lab


def test_a_graph_that_folds_values_goes_with_their_version() -> None:
    version = [0]
    lab = folding(lambda component: version[0])
    lab.arm()
    sync_in_place(lab.module, 1)
    version[0] = 1
    assert lab.told(count=4)[-1] == "replay"
    assert lab.capturer.counters.evictions == {"weights synced": 1}


def test_without_a_version_such_a_graph_would_answer_with_old_weights() -> None:
    lab = folding(lambda component: 0)
    lab.arm()
    sync_in_place(lab.module, 1)
    with pytest.raises(AssertionError, match="output 'latent' differs"):
        lab.told()

"""The wan card under the rules of every driven card: plans, experts, components, pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guards import planned_without_kernels
from restrike.cards.checkpoint import Folder
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.events import PictureFinished, StepFinished
from restrike.models.wan.layout import layout_of
from restrike.models.wan.model import WanModel

from .conftest import Checkpoints, wan_at
from .tiny import TinyWan

REQUEST = Request(
    prompt="a red circle", negative_prompt="black", seed=3, width=32, height=32, frames=5, steps=4
)
EXPERTS = TinyWan(boundary_ratio=0.9)
INSIDE = TinyWan(expand_timesteps=True)


def picture_HWC(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (40, 56, 3), dtype=np.uint8)


def frames_of(engine: Engine, folder: Path, request: Request) -> bytes:
    return engine.generate(wan_at(folder), request).picture.frames_THWC.tobytes()


WAYS: list[tuple[TinyWan, dict[str, Any]]] = [
    *((TinyWan(), {"solver": solver}) for solver in ("euler", "sde", "unipc")),
    (TinyWan(), {"guidance_mode": "batched", "guidance_every": 2}),
    (EXPERTS, {"guidance": 4.0, "guidance_2": 2.0, "steps": 8}),
    (INSIDE, {}),
    (INSIDE, {"image": picture_HWC(0)}),
    (TinyWan(image=True, image_tokens=True), {"image": picture_HWC(0)}),
]


@pytest.mark.parametrize(("kind", "way"), WAYS, ids=[f"{index}" for index in range(len(WAYS))])
def test_planning_runs_no_kernel(
    wan_engine: Engine, checkpoints: Checkpoints, kind: TinyWan, way: dict[str, Any]
) -> None:
    folder, request = checkpoints(kind), replace(REQUEST, **way)
    guarded = wan_engine.generate(planned_without_kernels(wan_at(folder)), request)
    assert guarded.picture.frames_THWC.tobytes() == frames_of(wan_engine, folder, request)


def test_a_seed_decides_the_bytes(wan_engine: Engine, text_checkpoint: Path) -> None:
    first, again, other = (
        frames_of(wan_engine, text_checkpoint, replace(REQUEST, seed=seed)) for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize("kind", [TinyWan(image=True), INSIDE], ids=["beside", "inside"])
def test_the_image_decides_the_video(wan_engine: Engine, checkpoints: Checkpoints, kind: TinyWan) -> None:
    first, again, other = (
        frames_of(wan_engine, checkpoints(kind), replace(REQUEST, image=picture_HWC(seed)))
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_an_expert_has_one_side_of_the_boundary(checkpoints: Checkpoints) -> None:
    model = WanModel(layout=layout_of(Folder(checkpoints(EXPERTS)).resolve(())))
    assert [model.expert(timestep) for timestep in (1000.0, 900.1, 900.0)] == ["transformer"] * 3
    assert [model.expert(timestep) for timestep in (899.9, 1.0)] == ["transformer_2"] * 2


def storage(module: Any) -> set[int]:
    tensors = (*module.parameters(), *module.buffers())
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


def test_experts_share_no_tensor(wan_engine: Engine, checkpoints: Checkpoints) -> None:
    resident = wan_engine.load(wan_at(checkpoints(EXPERTS)))
    first, second = resident.component("transformer"), resident.component("transformer_2")
    assert first is not second
    assert not storage(first) & storage(second)
    assert storage(first) & storage(first)


def test_an_expert_that_no_step_needs_is_not_built(checkpoints: Checkpoints) -> None:
    engine, card = Engine(device="cpu", precision="float32"), wan_at(checkpoints(EXPERTS))
    events = list(
        engine.stream(
            card, replace(REQUEST, steps=None, sigmas=(0.8, 0.4), guidance=1.0, negative_prompt=None)
        )
    )
    assert {event.component for event in events if isinstance(event, StepFinished)} == {"transformer_2"}
    assert "transformer" not in engine.load(card).loaded()


def test_two_loops_share_the_components_that_both_read(checkpoints: Checkpoints) -> None:
    engine, card = Engine(device="cpu", precision="float32"), wan_at(checkpoints(INSIDE))
    engine.generate(card, REQUEST)
    resident = engine.load(card)
    assert len(resident.card.loops) == 2
    built = {name: resident.component(name) for name in resident.loaded()}
    engine.generate(card, replace(REQUEST, image=picture_HWC(0)))
    assert {name: resident.component(name) for name in resident.loaded()} == built
    modules = [part for part in built.values() if isinstance(part, torch.nn.Module)]
    held_bytes = sum(tensor.nbytes for part in modules for tensor in (*part.parameters(), *part.buffers()))
    assert resident.residency.snapshot().resident_bytes == held_bytes


def test_where_one_expert_has_room_they_take_turns_and_the_video_is_the_same(
    checkpoints: Checkpoints,
) -> None:
    card = wan_at(checkpoints(TinyWan(boundary_ratio=0.9, layers=12)))
    request = replace(REQUEST, steps=8, guidance=4.0, guidance_2=2.0)
    roomy = Engine(device="cpu", precision="float32")
    expected = roomy.generate(card, request).picture
    sizes = {part.component: part.size_bytes for part in roomy.load(card).residency.snapshot().residents}
    two_experts = sizes["transformer"] + sizes["transformer_2"]
    tight = Engine(device="cpu", precision="float32", memory_limit_bytes=two_experts - 1)
    residency, most_bytes, components = tight.load(card).residency, 0, list[str]()
    for event in tight.stream(card, request):
        if isinstance(event, StepFinished):
            most_bytes = max(most_bytes, residency.snapshot().resident_bytes)
            components.append(event.component)
        if isinstance(event, PictureFinished):
            assert event.picture.frames_THWC.tobytes() == expected.frames_THWC.tobytes()
            assert event.picture.latent is not None
            assert expected.latent is not None
            assert torch.equal(event.picture.latent, expected.latent)
    assert components == sorted(components)
    assert set(components) == {"transformer", "transformer_2"}
    assert 0 < most_bytes < two_experts
    assert roomy.load(card).residency.snapshot().resident_bytes > two_experts

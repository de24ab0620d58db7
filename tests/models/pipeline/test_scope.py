"""A pipeline of one request has its own of all that a call changes, and shares the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from diffusers import ClassifierFreeGuidance, DiffusionPipeline, FlowMatchEulerDiscreteScheduler

from restrike.models.pipeline.scope import pipelines_in, request_scoped


class Inner(DiffusionPipeline):
    """A part of a combined pipeline."""

    def __init__(self, scheduler: Any) -> None:
        super().__init__()
        self.register_modules(scheduler=scheduler)


class Combined(DiffusionPipeline):
    """Holds another pipeline and lends it its scheduler, as the published combined ones do."""

    def __init__(self, scheduler: Any, guider: Any = None) -> None:
        super().__init__()
        self.register_modules(scheduler=scheduler, guider=guider)
        self.inner = Inner(scheduler)
        self.notes: list[int] = []


def test_the_scheduler_and_the_attributes_are_its_own(reference_of: Callable[[str], Any]) -> None:
    loaded = reference_of("flux")
    configuration = dict(loaded.config)
    own = request_scoped(loaded)
    own.scheduler.set_timesteps(3, mu=1.0)
    own._guidance_scale = 9.0
    assert len(loaded.scheduler.timesteps) != 3
    assert own.scheduler.config == loaded.scheduler.config
    assert vars(loaded).get("_guidance_scale") != 9.0
    assert dict(loaded.config) == configuration
    assert dict(own.config) == configuration


def test_models_and_tokenizers_are_shared(reference_of: Callable[[str], Any]) -> None:
    loaded = reference_of("flux")
    own = request_scoped(loaded)
    for name, part in loaded.components.items():
        assert (getattr(own, name) is part) == (name != "scheduler"), name
    weights = {parameter.data_ptr() for parameter in loaded.transformer.parameters()}
    assert {parameter.data_ptr() for parameter in own.transformer.parameters()} == weights
    assert not any(isinstance(part, torch.nn.Module) for part in vars(own.scheduler).values())


def test_a_pipeline_inside_a_pipeline_is_its_own_too() -> None:
    loaded = Combined(FlowMatchEulerDiscreteScheduler(), ClassifierFreeGuidance())
    own = request_scoped(loaded)
    assert own.guider is not loaded.guider
    own.notes.append(1)
    assert loaded.notes == []
    assert own.inner is not loaded.inner
    assert own.inner.scheduler is own.scheduler, "what was one scheduler stays one"
    assert own.scheduler is not loaded.scheduler
    assert list(pipelines_in(own)) == [own, own.inner]

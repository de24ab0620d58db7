"""Pipelines that are loaded in other ways than as published: what they share, and what they never share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch

from restrike.cards.checkpoint import Checkpoint
from restrike.cards.placement import Placement
from restrike.errors import Refused
from restrike.models.pipeline import installed
from restrike.models.pipeline.folder import read
from restrike.models.pipeline.loading import load
from restrike.models.pipeline.options import PipelineOptions, Scheduler, card_with
from restrike.models.pipeline.schedulers import with_scheduler
from restrike.models.pipeline.scope import request_scoped, structural_copy
from restrike.models.pipeline.shared import shared_weights

CPU = Placement(device="cpu", dtype="float32")


def layers(pipeline: Any) -> set[int]:
    """The modules of a pipeline."""
    parts = [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]
    return {id(module) for part in parts for module in part.modules()}


def tensors(pipeline: Any) -> dict[int, Any]:
    """The weights of a pipeline."""
    parts = [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]
    return {id(value): value for part in parts for value in (*part.parameters(), *part.buffers())}


def test_a_structural_copy_shares_each_tensor_and_no_module(reference_of: Callable[[str], Any]) -> None:
    loaded = reference_of("sdxl")
    own = request_scoped(loaded)
    assert layers(own) == layers(loaded), "negative control: requests share modules"
    structural_copy(own)
    assert not layers(own) & layers(loaded)
    assert tensors(own).keys() == tensors(loaded).keys()


def test_a_wrapped_layer_of_a_copy_is_not_seen_by_the_loaded_pipeline(
    reference_of: Callable[[str], Any],
) -> None:
    loaded = reference_of("sd")
    layer = loaded.unet.conv_in
    own = request_scoped(loaded)
    structural_copy(own)
    own.unet.conv_in = torch.nn.Sequential(own.unet.conv_in, torch.nn.Identity())
    assert loaded.unet.conv_in is layer


def test_weights_are_shared_while_someone_uses_them() -> None:
    class Loaded:
        """Stands for a pipeline."""

    first = shared_weights({"weights": "a"}, Loaded)
    assert shared_weights({"weights": "a"}, Loaded) is first
    assert shared_weights({"weights": "b"}, Loaded) is not first
    pipeline = id(first.pipeline)
    kept = first.pipeline
    del first
    assert shared_weights({"weights": "a"}, Loaded).pipeline is not kept
    assert pipeline == id(kept)


def test_a_scheduler_is_replaced_everywhere_that_it_is_used(reference_of: Callable[[str], Any]) -> None:
    loaded = reference_of("sd")
    own = request_scoped(loaded)
    with_scheduler(own, Scheduler(name="EulerDiscreteScheduler", options={"beta_end": 0.013}))
    assert own.scheduler.config.beta_end == 0.013
    assert own.scheduler.config.beta_start == loaded.scheduler.config.beta_start
    assert type(loaded.scheduler).__name__ == "DPMSolverMultistepScheduler"


def test_a_scheduler_that_is_none_is_refused(reference_of: Callable[[str], Any]) -> None:
    with pytest.raises(Refused, match="has no scheduler 'AutoencoderKL'"):
        with_scheduler(request_scoped(reference_of("sd")), Scheduler(name="AutoencoderKL"))


def test_a_variant_is_read_when_it_is_asked_for(
    reference_of: Callable[[str], Any], folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    reference_of("sd").save_pretrained(tmp_path, variant="fp16")
    checkpoint = Checkpoint(root=tmp_path, name="sd")
    assert read(checkpoint, PipelineOptions(variant="fp16")).variant == "fp16"
    with pytest.raises(Refused, match=r"has no variant 'ema' \(there is fp16\)"):
        read(checkpoint, PipelineOptions(variant="ema"))
    plain = Checkpoint(root=folder_of("sd"), name="sd")
    with pytest.raises(Refused, match="plain weights only"):
        read(plain, PipelineOptions(variant="fp16"))


def test_weights_that_are_not_those_asked_for_are_refused(folder_of: Callable[[str], Path]) -> None:
    checkpoint = Checkpoint(root=folder_of("sd"), name="sd")
    with pytest.raises(Refused, match="'sd' was changed while it was used"):
        load(checkpoint, CPU, PipelineOptions(weights="0" * 64))


def test_options_that_load_alike_make_one_card() -> None:
    one, other = (card_with(PipelineOptions(attention=name)) for name in ("native", "_native_math"))
    assert one == card_with(PipelineOptions(attention="native")) != other
    assert card_with(PipelineOptions(offload="model")) != card_with(PipelineOptions())


def test_the_names_read_from_the_sources_are_those_of_diffusers() -> None:
    from diffusers.models.attention_dispatch import AttentionBackendName
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline
    from diffusers.schedulers.scheduling_utils import SchedulerMixin

    assert set(installed.attention_backends()) == {each.value for each in AttentionBackendName}
    assert {"FluxPipeline", "StableDiffusionPipeline", "WanPipeline"} <= set(installed.pipelines())
    assert {"DDIMScheduler", "UniPCMultistepScheduler"} <= set(installed.schedulers())
    assert issubclass(getattr(diffusers, "FluxPipeline"), DiffusionPipeline)  # noqa: B009
    for name in ("DDIMScheduler", "EulerDiscreteScheduler", "FlowMatchEulerDiscreteScheduler"):
        assert issubclass(getattr(diffusers, name), SchedulerMixin)
    assert all(hasattr(diffusers, name) for name in (*installed.QUANTIZATIONS, "DiffusionPipeline"))

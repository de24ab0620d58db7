"""A checkpoint that cannot be loaded safely and whole is refused by name, before weights are read."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from restrike.cards.checkpoint import Checkpoint
from restrike.cards.registry import find
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.errors import NotFound, Refused
from restrike.models.pipeline.folder import read

from .conftest import card_at

WEIGHTS = "diffusion_pytorch_model.safetensors"

CODE = """
from diffusers import StableDiffusionPipeline

class Inverted(StableDiffusionPipeline):
    def __call__(self, prompt, generator=None, num_inference_steps=2):
        output = super().__call__(prompt, generator=generator, num_inference_steps=num_inference_steps)
        output.images = [picture.point(lambda value: 255 - value) for picture in output.images]
        return output
"""


@pytest.fixture
def sd(folder_of: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of the family `sd` that a test may break."""
    return shutil.copytree(folder_of("sd"), tmp_path / "broken")


def reading(folder: Path, *, trusted: bool = False) -> Any:
    return read(Checkpoint(root=folder, name="broken", code_trusted=trusted))


def edit_index(folder: Path, **changes: Any) -> None:
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps(index | changes))


def test_a_whole_folder_is_read(sd: Path) -> None:
    found = reading(sd)
    assert (found.name, found.variant) == ("StableDiffusionPipeline", None)


def test_torn_weights_are_named(sd: Path) -> None:
    file = sd / "unet" / WEIGHTS
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(Refused, match=f"'broken': unet/{WEIGHTS} is torn"):
        reading(sd)


def test_missing_weights_are_named(sd: Path) -> None:
    (sd / "vae" / WEIGHTS).unlink()
    with pytest.raises(NotFound, match="'broken' has no weights in 'vae'"):
        reading(sd)


def test_a_missing_folder_or_configuration_is_named(sd: Path) -> None:
    (sd / "vae" / "config.json").unlink()
    with pytest.raises(NotFound, match=r"no vae/config\.json"):
        reading(sd)
    shutil.rmtree(sd / "tokenizer")
    with pytest.raises(NotFound, match=r"no folder 'tokenizer' \(transformers\.CLIPTokenizer\)"):
        reading(sd)


def test_a_missing_shard_is_named(sd: Path) -> None:
    shard = "diffusion_pytorch_model-00002-of-00002.safetensors"
    index = sd / "unet" / f"{WEIGHTS}.index.json"
    index.write_text(json.dumps({"weight_map": {"a": WEIGHTS, "b": shard}}))
    with pytest.raises(NotFound, match=f"no unet/{shard}"):
        reading(sd)


def test_pickled_weights_are_refused_with_what_to_do(sd: Path) -> None:
    (sd / "unet" / WEIGHTS).rename(sd / "unet" / "diffusion_pytorch_model.bin")
    with pytest.raises(
        Refused, match=r"only pickled weights in 'unet' \(diffusion_pytorch_model\.bin\).*sav"
    ):
        reading(sd)


def test_a_checkpoint_of_one_variant_is_loaded_as_that(sd: Path, pipeline_engine: Engine) -> None:
    for name in ("unet", "vae"):
        (sd / name / WEIGHTS).rename(sd / name / "diffusion_pytorch_model.fp16.safetensors")
    assert reading(sd).variant == "fp16"
    request = Request(prompt="a cat", seed=1, steps=1)
    assert pipeline_engine.generate(card_at(sd), request).picture.frames_THWC.shape == (1, 32, 32, 3)
    (sd / "vae" / "diffusion_pytorch_model.fp16.safetensors").rename(sd / "vae" / "model.bf16.safetensors")
    with pytest.raises(Refused, match="no one variant of all its weights: bf16, fp16"):
        reading(sd)


def test_an_unknown_pipeline_class_is_refused(sd: Path) -> None:
    edit_index(sd, _class_name="StableDiffusionPipelin")
    with pytest.raises(Refused, match="does not know; the nearest that it has is StableDiffusionPipeline"):
        reading(sd)
    edit_index(sd, _class_name="UNet2DConditionModel")
    with pytest.raises(Refused, match="is a UNet2DConditionModel"):
        reading(sd)


def test_a_component_of_another_library_is_refused_and_not_imported(sd: Path) -> None:
    edit_index(sd, unet=["antigravity", "UNet2DConditionModel"])
    with pytest.raises(Refused, match="component 'unet' comes from 'antigravity'"):
        reading(sd)
    edit_index(sd, unet=["diffusers", "UNet9DConditionModel"])
    with pytest.raises(Refused, match=r"diffusers has no UNet9DConditionModel \(unet\)"):
        reading(sd)


@pytest.fixture
def trusting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine that runs a checkpoint's code, from a cache of this test alone."""
    from diffusers.utils import dynamic_modules_utils

    monkeypatch.setattr(dynamic_modules_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return Engine(device="cpu", trust_remote_code=True)


def test_code_of_a_component_runs_only_when_it_is_trusted(
    sd: Path, pipeline_engine: Engine, trusting: Engine
) -> None:
    request = Request(prompt="a cat", seed=1, steps=2)
    plain = pipeline_engine.generate(card_at(sd), request).picture.frames_THWC
    (sd / "unet" / "mine.py").write_text("from diffusers import UNet2DConditionModel as Mine")
    edit_index(sd, unet=["mine", "Mine"])
    with pytest.raises(Refused, match=r"its own Python code \(unet/mine\.py\).*--trust-remote-code"):
        reading(sd)
    assert (trusting.generate(card_at(sd), request).picture.frames_THWC == plain).all()


def test_code_of_a_pipeline_runs_only_when_it_is_trusted(
    sd: Path, pipeline_engine: Engine, trusting: Engine
) -> None:
    edit_index(sd, _class_name=["inverted", "Inverted"])
    with pytest.raises(NotFound, match=r"no inverted\.py"):
        reading(sd)
    (sd / "inverted.py").write_text(CODE)
    request = Request(prompt="a cat", seed=1, steps=2)
    with pytest.raises(Refused, match=r"its own Python code \(inverted\.py\).*--trust-remote-code"):
        pipeline_engine.generate(find(str(sd)), request)
    inverted = trusting.generate(find(str(sd)), request).picture.frames_THWC
    edit_index(sd, _class_name="StableDiffusionPipeline")
    plain = pipeline_engine.generate(card_at(sd), request).picture.frames_THWC
    assert (inverted == 255 - plain).all()


def test_a_folder_that_no_driven_card_serves_gets_this_card(folder_of: Callable[[str], Path]) -> None:
    assert find(str(folder_of("flux"))).name == "pipeline"

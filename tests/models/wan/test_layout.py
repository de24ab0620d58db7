"""What the wan card takes from a checkpoint's configuration, and which checkpoints it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from restrike.cards import registry
from restrike.cards.card import ModelCard, Task
from restrike.engine.engine import Engine
from restrike.errors import NotFound, Refused
from restrike.models.wan.card import CARD

from .conftest import Checkpoints, wan_at
from .tiny import TinyWan

Edit = Callable[[str, dict[str, Any]], Path]


def fitted(folder: Path) -> ModelCard:
    return registry.fitted(wan_at(folder))


@pytest.fixture
def edited(text_checkpoint: Path, tmp_path: Path) -> Edit:
    """A copy of the text checkpoint with some values of one JSON file replaced."""

    def edit(file: str, values: dict[str, Any]) -> Path:
        folder = tmp_path / "edited"
        if not folder.exists():
            shutil.copytree(text_checkpoint, folder)
        path = folder / file
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
        return folder

    return edit


def test_the_card_itself_is_valid() -> None:
    assert CARD.validate() is CARD
    assert CARD.location is None


def test_a_text_checkpoint(text_checkpoint: Path) -> None:
    card = fitted(text_checkpoint)
    assert card.tasks() == (Task.TEXT_TO_VIDEO, Task.TEXT_TO_IMAGE)
    names = {part.name for part in card.components}
    assert names == {"tokenizer", "text_encoder", "transformer", "vae", "scheduler"}
    assert (card.defaults.solver, card.defaults.shift) == ("unipc", 3.0)
    # The tiny transformer knows 32 positions an axis.
    assert (card.geometry.width.step, card.geometry.width.maximum) == (16, 512)
    assert (card.geometry.frames.step, card.geometry.frames.maximum) == (4, 125)
    assert (card.defaults.width, card.defaults.height, card.defaults.frames) == (512, 480, 81)


def test_two_experts(checkpoints: Checkpoints) -> None:
    card = fitted(checkpoints(TinyWan(boundary_ratio=0.9)))
    assert "transformer_2" in {part.name for part in card.components}


@pytest.mark.parametrize("image_tokens", [True, False])
def test_an_image_checkpoint(checkpoints: Checkpoints, image_tokens: bool) -> None:
    card = fitted(checkpoints(TinyWan(image=True, image_tokens=image_tokens)))
    assert card.tasks() == (Task.IMAGE_TO_VIDEO,)
    assert ("image_encoder" in {part.name for part in card.components}) == image_tokens


def test_a_checkpoint_that_takes_text_or_an_image(checkpoints: Checkpoints) -> None:
    card = fitted(checkpoints(TinyWan(expand_timesteps=True)))
    assert set(card.tasks()) == {Task.TEXT_TO_VIDEO, Task.TEXT_TO_IMAGE, Task.IMAGE_TO_VIDEO}
    assert card.defaults.fps == 24


def test_fitting_twice_is_fitting_once(text_checkpoint: Path) -> None:
    card = fitted(text_checkpoint)
    assert registry.fitted(card) == card


def test_sizes_follow_the_vae_and_the_patch(edited: Edit) -> None:
    card = fitted(edited("vae/config.json", {"scale_factor_spatial": 16}))
    assert (card.geometry.width.step, card.geometry.height.step) == (32, 32)


def test_published_configurations_without_scales_have_the_usual_ones(edited: Edit) -> None:
    path = edited("vae/config.json", {}) / "vae/config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in config.items() if not k.startswith("scale_factor")}))
    assert fitted(path.parent.parent).geometry.width.step == 16


@pytest.mark.parametrize(
    ("file", "values", "named"),
    [
        (
            "transformer/config.json",
            {"_class_name": "WanVACETransformer3DModel"},
            "WanVACETransformer3DModel",
        ),
        ("transformer/config.json", {"in_channels": 36}, "in_channels 36"),
        ("transformer/config.json", {"pos_embed_seq_len": 514}, "first and a last picture"),
        ("vae/config.json", {"_class_name": "AutoencoderKL"}, "AutoencoderKL"),
        ("model_index.json", {"boundary_ratio": 0.9}, "transformer_2"),
        ("scheduler/scheduler_config.json", {"_class_name": "DDIMScheduler"}, "DDIMScheduler"),
        ("scheduler/scheduler_config.json", {"prediction_type": "epsilon"}, "prediction_type 'epsilon'"),
        ("scheduler/scheduler_config.json", {"use_flow_sigmas": False}, "use_flow_sigmas False"),
        ("scheduler/scheduler_config.json", {"lower_order_final": False}, "lower_order_final False"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_checkpoint_that_the_card_does_not_drive(
    edited: Edit, file: str, values: dict[str, Any], named: str
) -> None:
    with pytest.raises(Refused) as refusal:
        fitted(edited(file, values))
    assert named in str(refusal.value)
    assert "edited" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "file", ["transformer/config.json", "vae/config.json", "scheduler/scheduler_config.json"]
)
def test_a_missing_or_torn_configuration_is_named(edited: Edit, file: str) -> None:
    path = edited(file, {}) / file
    path.write_text(path.read_text()[:20])
    with pytest.raises(Refused, match=file):
        fitted(path.parent.parent)
    path.unlink()
    with pytest.raises(NotFound, match=file):
        fitted(path.parent.parent)


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("transformer/config.json", {"patch_size": 2}),
        ("transformer/config.json", {"patch_size": [2, 2]}),
        ("transformer/config.json", {"rope_max_seq_len": None}),
        ("vae/config.json", {"z_dim": "many"}),
        ("model_index.json", {"boundary_ratio": "half", "transformer_2": ["diffusers", "X"]}),
        ("model_index.json", {"boundary_ratio": 0.5, "transformer_2": 7}),
        ("scheduler/scheduler_config.json", {"flow_shift": "far"}),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(edited: Edit, file: str, values: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="checkpoint 'edited'"):
        fitted(edited(file, values))


def test_a_transformer_that_the_card_does_not_drive_is_refused_before_its_weights_are_read(
    edited: Edit,
) -> None:
    folder = edited("transformer/config.json", {"_class_name": "WanVACETransformer3DModel"})
    weights = [*folder.rglob("*.safetensors"), *folder.rglob("*.bin")]
    assert weights
    for file in weights:
        file.unlink()
    with pytest.raises(Refused, match="WanVACETransformer3DModel"):
        Engine(device="cpu").load(str(folder))

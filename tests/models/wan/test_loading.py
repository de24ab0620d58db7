"""Components of a checkpoint that is not whole: refused by name, never left at random values."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from restrike.cards.checkpoint import Checkpoint
from restrike.cards.placement import Placement
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.errors import NotFound, Refused
from restrike.models.wan import loading

from .conftest import Checkpoints, wan_at
from .tiny import TinyWan

PLACEMENT = Placement(device="cpu", dtype="float32")
WEIGHTS = "diffusion_pytorch_model.safetensors"
SMALL = Request(prompt="a red circle", seed=1, width=16, height=16, frames=1, steps=1)


@pytest.fixture
def copy(text_checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(text_checkpoint, tmp_path / "copy"))


def transformer(folder: Path) -> Any:
    return loading.load_transformer(Checkpoint(root=folder, name=folder.name), PLACEMENT, "transformer")


def sharded(folder: Path) -> list[Path]:
    """Split the transformer's weights over several files."""
    transformer(folder).save_pretrained(folder / "sharded", max_shard_size="40KB")
    shutil.rmtree(folder / "transformer")
    (folder / "sharded").rename(folder / "transformer")
    return sorted((folder / "transformer").glob("*.safetensors"))


def test_it_is_frozen_in_eval_mode_and_in_its_dtype(copy: Path) -> None:
    module = transformer(copy)
    assert not module.training
    assert not any(parameter.requires_grad for parameter in module.parameters())
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float32}


def test_half_precision_keeps_what_wan_keeps_in_float32(copy: Path) -> None:
    checkpoint = Checkpoint(root=copy, name="copy")
    half = Placement(device="cpu", dtype="bfloat16")
    module = loading.load_transformer(checkpoint, half, "transformer")
    assert module.dtype == torch.bfloat16
    assert module.scale_shift_table.dtype == torch.float32
    assert loading.load_vae(checkpoint, half).dtype == torch.float32


def test_shards_load(copy: Path) -> None:
    whole = transformer(copy).state_dict()
    assert len(sharded(copy)) > 1
    again = transformer(copy).state_dict()
    assert all(torch.equal(again[name], value) for name, value in whole.items())


def test_a_missing_shard_is_named(copy: Path) -> None:
    lost = sharded(copy)[1]
    lost.unlink()
    with pytest.raises(NotFound, match=lost.name):
        transformer(copy)


@pytest.mark.parametrize("kept", [4, 200, -4])
def test_a_torn_file_is_named(copy: Path, kept: int) -> None:
    torn = sharded(copy)[1]
    torn.write_bytes(torn.read_bytes()[:kept])
    with pytest.raises(Refused, match=rf"transformer/{torn.name} is torn"):
        transformer(copy)


def test_a_torn_index_is_named(copy: Path) -> None:
    sharded(copy)
    (copy / "transformer" / f"{WEIGHTS}.index.json").write_text("{")
    with pytest.raises(Refused, match=r"index\.json"):
        transformer(copy)


def test_absent_weights_name_the_component(copy: Path) -> None:
    (copy / "transformer" / WEIGHTS).unlink()
    with pytest.raises(NotFound, match="no weights of component 'transformer'"):
        transformer(copy)


def test_pickled_weights_are_not_read(copy: Path) -> None:
    path = copy / "transformer" / WEIGHTS
    torch.save(load_file(path), path.with_name("diffusion_pytorch_model.bin"))
    path.unlink()
    with pytest.raises(NotFound, match="no weights of component 'transformer'"):
        transformer(copy)


def test_an_absent_tensor_is_named(copy: Path) -> None:
    path = copy / "transformer" / WEIGHTS
    tensors = load_file(path)
    del tensors["blocks.0.attn1.to_q.weight"]
    save_file(tensors, path)
    with pytest.raises(Refused, match=r"blocks\.0\.attn1\.to_q\.weight"):
        transformer(copy)


def test_a_tensor_of_another_shape_is_refused(copy: Path) -> None:
    path = copy / "transformer" / WEIGHTS
    tensors = load_file(path)
    tensors["proj_out.bias"] = torch.zeros(3)
    save_file(tensors, path)
    with pytest.raises(Refused, match="component 'transformer' cannot be built") as refusal:
        transformer(copy)
    assert "\n" not in str(refusal.value)


def test_another_kind_of_text_encoder_is_refused(copy: Path) -> None:
    path = copy / "text_encoder/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "t5"}))
    with pytest.raises(Refused, match="model_type 't5'"):
        loading.load_text_encoder(Checkpoint(root=copy, name="copy"), PLACEMENT)


@pytest.mark.parametrize("named", ["Path", "AutoModel", None])
def test_a_tokenizer_class_that_is_none_is_refused(copy: Path, named: str | None) -> None:
    path = copy / "model_index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tokenizer": ["transformers", named]}))
    with pytest.raises(Refused, match="names no tokenizer class"):
        loading.load_tokenizer(Checkpoint(root=copy, name="copy"), PLACEMENT)


@pytest.mark.parametrize("component", ["tokenizer", "text_encoder", "transformer", "vae"])
def test_a_missing_component_is_named(wan_engine: Engine, copy: Path, component: str) -> None:
    shutil.rmtree(copy / component)
    with pytest.raises(NotFound, match=component):
        wan_engine.generate(wan_at(copy), SMALL)


def image_request() -> Request:
    import numpy as np

    return Request(
        prompt="a", seed=1, width=16, height=16, frames=5, steps=1, image=np.zeros((16, 16, 3), np.uint8)
    )


CASES: list[tuple[TinyWan, Callable[[], Request], set[str]]] = [
    (TinyWan(), lambda: SMALL, {"transformer"}),
    (TinyWan(expand_timesteps=True), lambda: SMALL, {"transformer"}),
    (TinyWan(image=True), image_request, {"transformer"}),
    (
        TinyWan(image=True, image_tokens=True),
        image_request,
        {"transformer", "image_encoder", "image_processor"},
    ),
]


@pytest.mark.parametrize(("kind", "request_of", "own"), CASES)
def test_only_what_a_request_uses_is_built(
    checkpoints: Checkpoints, kind: TinyWan, request_of: Callable[[], Request], own: set[str]
) -> None:
    engine = Engine(device="cpu", precision="float32")
    card = wan_at(checkpoints(kind))
    engine.generate(card, request_of())
    common = {"tokenizer", "text_encoder", "vae", "scheduler"}
    assert set(engine.load(card).loaded()) == common | own

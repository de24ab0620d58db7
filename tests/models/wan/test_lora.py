"""LoRAs of Wan: fused as peft does it, in the names of diffusers and of other trainers, on either expert."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from engine.weights.loras import lora, state, written
from restrike.cards.adapters import Adapter
from restrike.cards.request import Request
from restrike.errors import Refused

from .conftest import Checkpoints, wan_at
from .tiny import TinyWan

if TYPE_CHECKING:
    from restrike.engine.engine import Engine

LAYERS = (
    "blocks.0.attn1.to_q",
    "blocks.1.attn2.to_out.0",
    "blocks.1.ffn.net.0.proj",
    "proj_out",
    "patch_embedding",
)


def run(engine: Engine, folder: Path, *adapters: Adapter) -> Any:
    request = Request(
        prompt="a red circle", seed=3, steps=2, width=16, height=16, frames=5, guidance=1.0, adapters=adapters
    )
    return engine.generate(wan_at(folder), request).picture


def merged_by_peft(folder: Path, files: list[tuple[Path, float]]) -> dict[str, Tensor]:
    """The transformer's weights after peft has merged the LoRAs, as the pipelines of diffusers do it."""
    from diffusers.pipelines.wan.pipeline_wan import WanPipeline

    pipeline = WanPipeline.from_pretrained(folder, torch_dtype=torch.float32)
    for number, (file, _) in enumerate(files):
        pipeline.load_lora_weights(str(file), adapter_name=f"lora_{number}")
    names = [f"lora_{number}" for number in range(len(files))]
    pipeline.set_adapters(names, adapter_weights=[strength for _, strength in files])
    pipeline.fuse_lora(components=["transformer"], adapter_names=names)
    pipeline.unload_lora_weights()
    return pipeline.transformer.state_dict()


@pytest.mark.filterwarnings("ignore")
def test_the_fuse_is_that_of_peft(wan_engine: Engine, text_checkpoint: Path, tmp_path: Path) -> None:
    module = wan_engine.load(wan_at(text_checkpoint)).component("transformer")
    pristine, base = state(module), run(wan_engine, text_checkpoint)
    one = written(tmp_path / "one.safetensors", lora(module, LAYERS, seed=1, rank=4))
    scaled = {"transformer.r": 2, "transformer.lora_alpha": 6}
    two = written(
        tmp_path / "two.safetensors",
        lora(module, LAYERS[1:3], seed=2),
        scaled | {"transformer.target_modules": list(LAYERS[1:3])},
    )
    made = run(wan_engine, text_checkpoint, Adapter(one, 0.8), Adapter(two, -0.5))
    expected = merged_by_peft(text_checkpoint, [(one, 0.8), (two, -0.5)])
    changed = 0
    for name, value in module.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6)
        changed += int(state_of(value) != pristine[name])
    assert changed == len(LAYERS)
    assert (made.frames_THWC != base.frames_THWC).any()
    assert (run(wan_engine, text_checkpoint).frames_THWC == base.frames_THWC).all()
    assert state(module) == pristine


def state_of(value: Tensor) -> bytes:
    return (
        value.detach().contiguous().view(torch.uint8).numpy().tobytes()
        if value.ndim
        else value.numpy().tobytes()
    )


FOREIGN = {
    "blocks.0.self_attn.q": "blocks.0.attn1.to_q",
    "blocks.0.cross_attn.o": "blocks.0.attn2.to_out.0",
    "blocks.1.ffn.0": "blocks.1.ffn.net.0.proj",
    "blocks.1.ffn.2": "blocks.1.ffn.net.2",
}


@pytest.mark.parametrize("alpha", [None, 4.0])
def test_the_names_of_other_trainers_are_those_of_diffusers(
    wan_engine: Engine, text_checkpoint: Path, tmp_path: Path, alpha: float | None
) -> None:
    module = wan_engine.load(wan_at(text_checkpoint)).component("transformer")
    tensors: dict[str, Tensor] = {}
    known: dict[str, Tensor] = {}
    for seed, (foreign, name) in enumerate(FOREIGN.items()):
        for key, value in lora(module, (name,), seed=seed, alpha=alpha).items():
            known[key] = value
            renamed = key.replace(f"transformer.{name}", f"diffusion_model.{foreign}")
            if alpha is not None:
                renamed = renamed.replace("lora_A", "lora_down").replace("lora_B", "lora_up")
            tensors[renamed] = value
    theirs = run(wan_engine, text_checkpoint, Adapter(written(tmp_path / "theirs.safetensors", tensors)))
    fused = {name: value.clone() for name, value in module.state_dict().items()}
    ours = run(wan_engine, text_checkpoint, Adapter(written(tmp_path / "ours.safetensors", known)))
    for name, value in module.state_dict().items():
        torch.testing.assert_close(value, fused[name], rtol=0, atol=1e-6)
    assert theirs.frames_THWC.shape == ours.frames_THWC.shape


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("diffusion_model.blocks.0.norm3.diff", "no LoRA layer holds"),
        ("diffusion_model.blocks.0.nobody.lora_A.weight", "diffusers does not know|no use for|binds"),
    ],
)
def test_what_diffusers_would_leave_out_is_refused(
    wan_engine: Engine, text_checkpoint: Path, tmp_path: Path, name: str, words: str
) -> None:
    module = wan_engine.load(wan_at(text_checkpoint)).component("transformer")
    good = lora(module, ("blocks.0.attn1.to_q",))
    tensors = {
        key.replace("transformer.blocks.0.attn1.to_q", "diffusion_model.blocks.0.self_attn.q"): value
        for key, value in good.items()
    }
    file = written(tmp_path / "x.safetensors", tensors | {name: torch.ones(2, 24)})
    with pytest.raises(Refused, match=words):
        run(wan_engine, text_checkpoint, Adapter(file))


def test_a_text_encoder_can_be_adapted_and_its_features_are_its_own(
    wan_engine: Engine, text_checkpoint: Path, tmp_path: Path
) -> None:
    resident = wan_engine.load(wan_at(text_checkpoint))
    encoder = resident.component("text_encoder")
    layer = "encoder.block.0.layer.0.SelfAttention.q"
    file = written(tmp_path / "x.safetensors", lora(encoder, (layer,), prefix="text_encoder.", size=3.0))
    base = run(wan_engine, text_checkpoint)
    adapted = run(wan_engine, text_checkpoint, Adapter(file))
    assert not torch.equal(adapted.latent, base.latent)
    assert torch.equal(run(wan_engine, text_checkpoint).latent, base.latent)
    assert torch.equal(run(wan_engine, text_checkpoint, Adapter(file)).latent, adapted.latent)


def test_an_adapter_can_be_sent_to_the_second_expert(
    wan_engine: Engine, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    folder = checkpoints(TinyWan(boundary_ratio=0.875))
    resident = wan_engine.load(wan_at(folder))
    high, low = resident.component("transformer"), resident.component("transformer_2")
    before = state(high), state(low)
    file = written(tmp_path / "x.safetensors", lora(high, LAYERS))
    run(wan_engine, folder, Adapter(file))
    assert state(high) != before[0]
    assert state(low) == before[1]
    run(wan_engine, folder, Adapter(file, component="transformer_2"))
    assert state(high) == before[0]
    assert state(low) != before[1]
    named = wan_engine.version_of(wan_at(folder), "transformer_2").adapters
    assert [part.component for part in named] == ["transformer_2"]
    assert wan_engine.version_of(wan_at(folder), "transformer").adapters == ()


def test_a_second_request_encodes_neither_its_prompts_nor_its_picture_again(checkpoints: Checkpoints) -> None:
    import numpy as np

    from restrike.engine.engine import Engine

    engine, folder = (
        Engine(device="cpu", precision="float32"),
        checkpoints(TinyWan(image=True, image_tokens=True)),
    )
    image = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    request = Request(prompt="a red circle", seed=3, steps=2, width=16, height=16, frames=5, image=image)
    first = engine.generate(wan_at(folder), request).picture
    counters = engine.features.counters
    second = engine.generate(wan_at(folder), request).picture
    assert torch.equal(first.latent, second.latent)  # pyright: ignore[reportArgumentType]
    assert (counters.hits, counters.misses) == (0, 3), "prompt, negative prompt, picture"
    assert (engine.features.counters.hits, engine.features.counters.misses) == (3, 3)

"""Writes tiny random Wan checkpoints in the diffusers layout: whole in kind, a few hundred kilobytes in size.

Nothing is downloaded; the tokenizer is built here, and all weights come from a fixed seed.
"""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'-&é"
WORDS = ("a", "the", "red", "blue", "circle", "square", "moving", "left", "right", "on", "black")
TEXT_WIDTH = 32
LATENT_CHANNELS = 16


@dataclass(frozen=True, kw_only=True)
class TinyWan:
    """What kind of checkpoint to write; the default is Wan 2.1 text to video.

    `boundary_ratio` makes it one of two experts, `image` an image to video pipeline, with a CLIP encoder
    when `image_tokens`; `expand_timesteps` makes it the TI2V kind. A large `ffn_width` makes its transformers
    large at little cost in time.
    """

    boundary_ratio: float | None = None
    expand_timesteps: bool = False
    image: bool = False
    image_tokens: bool = False
    layers: int = 2
    ffn_width: int = 32
    seed: int = 0

    @property
    def in_channels(self) -> int:
        """Latent, and for an image model the known frames and their mask."""
        beside = self.image and not self.expand_timesteps
        return 2 * LATENT_CHANNELS + 4 if beside else LATENT_CHANNELS


def write(folder: Path, kind: TinyWan | None = None) -> Path:
    """Write the checkpoint and return its folder."""
    import diffusers

    kind = kind or TinyWan()
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(kind.seed)
        parts = _parts(kind)
        pipeline = diffusers.WanImageToVideoPipeline if kind.image else diffusers.WanPipeline
        pipeline(
            **parts, boundary_ratio=kind.boundary_ratio, expand_timesteps=kind.expand_timesteps
        ).save_pretrained(folder)
    return folder


def with_scheduler(source: Path, target: Path, scheduler: Any) -> Path:
    """A copy of a checkpoint with another scheduler."""
    shutil.copytree(source, target)
    scheduler.save_pretrained(target / "scheduler")
    index = json.loads((target / "model_index.json").read_text())
    index["scheduler"] = ["diffusers", type(scheduler).__name__]
    (target / "model_index.json").write_text(json.dumps(index))
    return target


def _parts(kind: TinyWan) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "tokenizer": _tokenizer(),
        "text_encoder": _text_encoder(),
        "vae": _vae(),
        "scheduler": unipc(),
        "transformer": _transformer(kind),
    }
    if kind.boundary_ratio is not None:
        parts["transformer_2"] = _transformer(kind)
    if kind.image_tokens:
        parts |= _image_parts()
    return {name: part.eval() if isinstance(part, torch.nn.Module) else part for name, part in parts.items()}


def unipc(**settings: Any) -> Any:
    """The scheduler of most published Wan checkpoints."""
    from diffusers import UniPCMultistepScheduler

    usual: dict[str, Any] = {"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": 3.0}
    return UniPCMultistepScheduler(**(usual | settings))


def euler(**settings: Any) -> Any:
    """The other family."""
    from diffusers import FlowMatchEulerDiscreteScheduler

    usual: dict[str, Any] = {"shift": 5.0}
    return FlowMatchEulerDiscreteScheduler(**(usual | settings))


def _tokenizer() -> Any:
    """A Unigram tokenizer with the conventions of umT5: metaspace, `</s>` behind, `<pad>` to fill."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import T5Tokenizer

    tokens = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -1.0)]
    tokens += [(letter, -1.0) for letter in LETTERS] + [(f"▁{word}", -2.0) for word in WORDS]
    model = Tokenizer(models.Unigram(tokens, unk_id=2))
    model.pre_tokenizer = pre_tokenizers.Metaspace()
    model.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return T5Tokenizer(
        tokenizer_object=model, eos_token="</s>", unk_token="<unk>", pad_token="<pad>", extra_ids=0
    )


def _text_encoder() -> Any:
    from transformers import UMT5Config, UMT5EncoderModel

    return UMT5EncoderModel(
        UMT5Config(
            vocab_size=128, d_model=TEXT_WIDTH, d_kv=8, d_ff=37, num_layers=2, num_heads=4, dropout_rate=0.1
        )
    )


def _transformer(kind: TinyWan) -> Any:
    from diffusers import WanTransformer3DModel

    image = {"image_dim": 8, "added_kv_proj_dim": 24} if kind.image_tokens else {}
    return WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=kind.in_channels,
        out_channels=LATENT_CHANNELS,
        text_dim=TEXT_WIDTH,
        freq_dim=256,
        ffn_dim=kind.ffn_width,
        num_layers=kind.layers,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        rope_max_seq_len=32,
        **image,
    )


def _vae() -> Any:
    from diffusers import AutoencoderKLWan

    return AutoencoderKLWan(
        base_dim=3,
        z_dim=LATENT_CHANNELS,
        dim_mult=[1, 1, 1, 1],
        num_res_blocks=1,
        temperal_downsample=[False, True, True],
    )


def _image_parts() -> dict[str, Any]:
    from transformers import CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModel

    config = CLIPVisionConfig(
        hidden_size=8,
        projection_dim=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=32,
        intermediate_size=16,
        patch_size=8,
    )
    processor = CLIPImageProcessor(crop_size=32, size=32)
    return {"image_encoder": CLIPVisionModel(config), "image_processor": processor}

"""Tiny random pipelines of seven published families, built in memory and written in the diffusers layout.

Nothing is downloaded and nothing is committed: a builder takes milliseconds, seeds its own weights, and puts
every module in eval mode, as a reloaded pipeline has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers
from tokenizers import pre_tokenizers

HIDDEN = 16
TOKENS = 77


@dataclass(frozen=True, kw_only=True)
class Family:
    """How one family is built and asked: as a request, and as its own call with the same meaning."""

    build: Callable[[], dict[str, Any]]
    pipeline: str
    request: dict[str, Any]
    call: dict[str, Any]


def write(family: Family, folder: Path, seed: int = 0) -> Path:
    """Build the family's pipeline and save it below `folder`; the global random state is as before."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        parts = family.build()
    for part in parts.values():
        if isinstance(part, torch.nn.Module):
            part.eval()
    getattr(diffusers, family.pipeline)(**parts).save_pretrained(folder)
    return folder


def _clip_tokenizer() -> Any:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    vocabulary = {word: index for index, word in enumerate(words)}
    return transformers.CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=TOKENS)


def _t5_tokenizer() -> Any:
    letters = [(letter, -1.0) for letter in "▁abcdefghijklmnopqrstuvwxyz"]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *letters]
    return transformers.T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=TOKENS)


def _qwen_tokenizer() -> Any:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {word: index for index, word in enumerate([*special, *letters])}
    return transformers.Qwen2Tokenizer(vocab=vocabulary, merges=[], extra_special_tokens=special[1:])


def _clip(tokenizer: Any, *, projected: bool = False) -> Any:
    config = transformers.CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        projection_dim=HIDDEN,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=TOKENS,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    return (transformers.CLIPTextModelWithProjection if projected else transformers.CLIPTextModel)(config)


def _t5(tokenizer: Any) -> Any:
    sizes = {"d_model": HIDDEN, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    return transformers.T5EncoderModel(transformers.T5Config(vocab_size=len(tokenizer), **sizes))


def _image_vae(channels: int) -> Any:
    return diffusers.AutoencoderKL(
        block_out_channels=(8, 16),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        layers_per_block=1,
        latent_channels=channels,
        norm_num_groups=4,
        use_quant_conv=channels == 4,
        use_post_quant_conv=channels == 4,
        shift_factor=0.1,
        sample_size=32,
    )


def _unet(**conditioning: Any) -> Any:
    return diffusers.UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=2,
        norm_num_groups=4,
        **conditioning,
    )


def _multistep() -> Any:
    return diffusers.DPMSolverMultistepScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1
    )


def _flow(**options: Any) -> Any:
    return diffusers.FlowMatchEulerDiscreteScheduler(**options)


def _sd() -> dict[str, Any]:
    tokenizer = _clip_tokenizer()
    return {
        "vae": _image_vae(4),
        "text_encoder": _clip(tokenizer),
        "tokenizer": tokenizer,
        "unet": _unet(cross_attention_dim=HIDDEN),
        "scheduler": _multistep(),
        "safety_checker": None,
        "feature_extractor": None,
        "requires_safety_checker": False,
    }


def _sdxl() -> dict[str, Any]:
    tokenizer = _clip_tokenizer()
    unet = _unet(
        cross_attention_dim=2 * HIDDEN,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=HIDDEN + 6 * 8,
        transformer_layers_per_block=1,
        use_linear_projection=True,
    )
    return {
        "vae": _image_vae(4),
        "text_encoder": _clip(tokenizer),
        "text_encoder_2": _clip(tokenizer, projected=True),
        "tokenizer": tokenizer,
        "tokenizer_2": tokenizer,
        "unet": unet,
        "scheduler": _multistep(),
    }


def _flux() -> dict[str, Any]:
    clip_tokenizer, t5_tokenizer = _clip_tokenizer(), _t5_tokenizer()
    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=HIDDEN,
        pooled_projection_dim=HIDDEN,
        axes_dims_rope=(2, 2, 4),
        guidance_embeds=True,
    )
    return {
        "scheduler": _flow(),
        "vae": _image_vae(4),
        "text_encoder": _clip(clip_tokenizer),
        "tokenizer": clip_tokenizer,
        "text_encoder_2": _t5(t5_tokenizer),
        "tokenizer_2": t5_tokenizer,
        "transformer": transformer,
    }


def _sd3() -> dict[str, Any]:
    clip_tokenizer, t5_tokenizer = _clip_tokenizer(), _t5_tokenizer()
    transformer = diffusers.SD3Transformer2DModel(
        sample_size=16,
        patch_size=1,
        in_channels=8,
        out_channels=8,
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        caption_projection_dim=16,
        joint_attention_dim=2 * HIDDEN,
        pooled_projection_dim=2 * HIDDEN,
    )
    t5 = transformers.T5EncoderModel(
        transformers.T5Config(
            vocab_size=len(t5_tokenizer), d_model=2 * HIDDEN, d_kv=8, d_ff=32, num_layers=1, num_heads=2
        )
    )
    return {
        "transformer": transformer,
        "scheduler": _flow(),
        "vae": _image_vae(8),
        "text_encoder": _clip(clip_tokenizer, projected=True),
        "tokenizer": clip_tokenizer,
        "text_encoder_2": _clip(clip_tokenizer, projected=True),
        "tokenizer_2": clip_tokenizer,
        "text_encoder_3": t5,
        "tokenizer_3": t5_tokenizer,
    }


def _ltx() -> dict[str, Any]:
    tokenizer = _t5_tokenizer()
    vae = diffusers.AutoencoderKLLTXVideo(
        latent_channels=8,
        block_out_channels=(8, 8, 8, 8),
        decoder_block_out_channels=(8, 8, 8, 8),
        layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1, 1),
        spatio_temporal_scaling=(True, True, False, False),
        decoder_spatio_temporal_scaling=(True, True, False, False),
        decoder_inject_noise=(False,) * 5,
        upsample_residual=(False,) * 4,
        upsample_factor=(1,) * 4,
        timestep_conditioning=False,
        patch_size=1,
        patch_size_t=1,
        encoder_causal=True,
        decoder_causal=False,
    )
    vae.use_framewise_encoding = vae.use_framewise_decoding = False
    transformer = diffusers.LTXVideoTransformer3DModel(
        in_channels=8,
        out_channels=8,
        num_attention_heads=2,
        attention_head_dim=8,
        cross_attention_dim=16,
        num_layers=1,
        caption_channels=HIDDEN,
    )
    return {
        "scheduler": _flow(),
        "vae": vae,
        "text_encoder": _t5(tokenizer),
        "tokenizer": tokenizer,
        "transformer": transformer,
    }


def _wan() -> dict[str, Any]:
    tokenizer = _t5_tokenizer()
    sizes = {"d_model": HIDDEN, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    encoder = transformers.UMT5EncoderModel(transformers.UMT5Config(vocab_size=len(tokenizer), **sizes))
    vae = diffusers.AutoencoderKLWan(
        base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True]
    )
    transformer = diffusers.WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=16,
        out_channels=16,
        text_dim=HIDDEN,
        freq_dim=32,
        ffn_dim=32,
        num_layers=1,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        rope_max_seq_len=32,
    )
    scheduler = diffusers.UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
    )
    return {
        "tokenizer": tokenizer,
        "text_encoder": encoder,
        "vae": vae,
        "scheduler": scheduler,
        "transformer": transformer,
    }


def _qwen() -> dict[str, Any]:
    tokenizer = _qwen_tokenizer()
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": HIDDEN,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "rope_scaling": {"rope_type": "default", "mrope_section": [1, 1, 2]},
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16}
    config = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision)
    vae = diffusers.AutoencoderKLQwenImage(
        base_dim=8,
        z_dim=4,
        dim_mult=[1, 2, 4],
        num_res_blocks=1,
        temperal_downsample=[False, True],
        latents_mean=[0.0] * 4,
        latents_std=[1.0] * 4,
    )
    transformer = diffusers.QwenImageTransformer2DModel(
        patch_size=2,
        in_channels=16,
        out_channels=4,
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=HIDDEN,
        guidance_embeds=False,
        axes_dims_rope=(2, 2, 4),
    )
    return {
        "scheduler": _flow(
            base_image_seq_len=256, max_image_seq_len=8192, use_dynamic_shifting=True, shift_terminal=0.02
        ),
        "vae": vae,
        "text_encoder": transformers.Qwen2_5_VLForConditionalGeneration(config),
        "tokenizer": tokenizer,
        "transformer": transformer,
    }


def _family(build: Callable[[], dict[str, Any]], pipeline: str, guidance: str, **asked: Any) -> Family:
    """A family that is asked for a small picture; `guidance` is what the pipeline calls its scale."""
    request = {"width": 32, "height": 32, "guidance": 4.0, **asked}
    names = {"guidance": guidance, "frames": "num_frames", "fps": "frame_rate"}
    call = {names.get(name, name): value for name, value in request.items()}
    return Family(build=build, pipeline=pipeline, request=request, call=call)


FAMILIES = {
    "sd": _family(_sd, "StableDiffusionPipeline", "guidance_scale"),
    "sdxl": _family(_sdxl, "StableDiffusionXLPipeline", "guidance_scale"),
    "flux": _family(_flux, "FluxPipeline", "guidance_scale"),
    "sd3": _family(_sd3, "StableDiffusion3Pipeline", "guidance_scale"),
    "ltx": _family(_ltx, "LTXPipeline", "guidance_scale", frames=9, fps=25.0),
    "wan": _family(_wan, "WanPipeline", "guidance_scale", frames=5),
    "qwen": _family(_qwen, "QwenImagePipeline", "true_cfg_scale", negative_prompt="grey"),
}

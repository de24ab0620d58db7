"""Command line of the training script."""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from restrike.models.shapes.text_encoder import ShapesTextEncoder, TextEncoderConfig
from restrike.models.shapes.train.dit_stage import Denoiser, train_dit
from restrike.models.shapes.train.run import RunConfig
from restrike.models.shapes.train.vae_stage import train_vae
from restrike.models.shapes.transformer import ShapesTransformer, TransformerConfig
from restrike.models.shapes.vae import ShapesVAE, VAEConfig

_PEAK_RATE = {"vae": 5e-3, "dit": 4e-3}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m restrike.models.shapes.train")
    parser.add_argument("--stage", choices=("vae", "dit"), required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder of checkpoints and finished weights")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = RunConfig(
        out=arguments.out / arguments.stage,
        seed=arguments.seed,
        steps=arguments.steps,
        peak_rate=_PEAK_RATE[arguments.stage],
    )
    stage = {"vae": _vae_stage, "dit": _dit_stage}[arguments.stage]
    stage(config, arguments.out)


def _vae_stage(config: RunConfig, out: Path) -> None:
    vae = train_vae(config, VAEConfig())
    _save(vae, out / "vae.safetensors")


def _dit_stage(config: RunConfig, out: Path) -> None:
    vae = ShapesVAE(VAEConfig()).to(memory_format=torch.channels_last)
    vae.load_state_dict(load_file(out / "vae.safetensors"))
    torch.manual_seed(config.seed)  # weight initialisation alone reads the global generator
    denoiser = Denoiser(ShapesTextEncoder(TextEncoderConfig()), ShapesTransformer(TransformerConfig()))
    average = copy.deepcopy(denoiser)
    train_dit(config, vae, denoiser, average)
    _save(average.text_encoder, out / "text_encoder.safetensors")
    _save(average.transformer, out / "transformer.safetensors")


def _save(module: nn.Module, path: Path) -> None:
    save_file({name: tensor.contiguous() for name, tensor in module.state_dict().items()}, path)


if __name__ == "__main__":
    main()

"""Command line of the training script; see the package's first lines."""

from __future__ import annotations

import argparse
import copy
import json
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from restrike.errors import NotFound, Refused
from restrike.models.shapes.model import ShapesConfig
from restrike.models.shapes.text_encoder import ShapesTextEncoder, TextEncoderConfig
from restrike.models.shapes.train.decoder_stage import train_decoder
from restrike.models.shapes.train.dit_stage import Denoiser, train_dit
from restrike.models.shapes.train.run import RunConfig
from restrike.models.shapes.train.vae_stage import channels_last, train_vae
from restrike.models.shapes.transformer import ShapesTransformer, TransformerConfig
from restrike.models.shapes.vae import ShapesVAE, VAEConfig

CONFIG = ShapesConfig(text_encoder=TextEncoderConfig(), transformer=TransformerConfig(), vae=VAEConfig())

_STEPS = {"vae": 2000, "dit": 5600, "decoder": 600}
_PEAK_RATE = {"vae": 5e-3, "dit": 4e-3, "decoder": 2e-3}


def main() -> int:
    """Train one stage; what it finishes lands in ``--out``, which is then a checkpoint folder of the card."""
    parser = argparse.ArgumentParser(prog="python -m restrike.models.shapes.train")
    parser.add_argument("--stage", choices=tuple(_STEPS), required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder of checkpoints and finished weights")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--steps", type=int, help="default: " + ", ".join(f"{n} for {s}" for s, n in _STEPS.items())
    )
    asked = parser.parse_args()
    steps = _STEPS[asked.stage] if asked.steps is None else asked.steps
    if steps < 1:
        parser.error(f"--steps must be 1 or more, not {steps}")
    torch.set_num_threads(1)
    config = RunConfig(
        out=asked.out / asked.stage, seed=asked.seed, steps=steps, peak_rate=_PEAK_RATE[asked.stage]
    )
    try:
        {"vae": _vae_stage, "dit": _dit_stage, "decoder": _decoder_stage}[asked.stage](config, asked.out)
    except Refused as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _vae_stage(config: RunConfig, out: Path) -> None:
    vae = train_vae(config, CONFIG.vae)
    _save(vae, out, "vae")


def _decoder_stage(config: RunConfig, out: Path) -> None:
    vae = _finished_vae(out)
    train_decoder(config, vae)
    _save(vae, out, "vae")


def _finished_vae(out: Path) -> ShapesVAE:
    finished = out / "vae.safetensors"
    if not finished.is_file():
        raise NotFound(f"no trained VAE at '{finished}'; run --stage vae with the same --out first")
    vae = channels_last(ShapesVAE(CONFIG.vae))
    vae.load_state_dict(load_file(finished))
    return vae


def _dit_stage(config: RunConfig, out: Path) -> None:
    vae = _finished_vae(out)
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        denoiser = Denoiser(ShapesTextEncoder(CONFIG.text_encoder), ShapesTransformer(CONFIG.transformer))
    average = copy.deepcopy(denoiser)
    train_dit(config, vae, denoiser, average)
    _save(average.text_encoder, out, "text_encoder")
    _save(average.transformer, out, "transformer")


def _save(module: nn.Module, out: Path, component: str) -> None:
    halves = {name: tensor.half().contiguous() for name, tensor in module.state_dict().items()}
    save_file(halves, out / f"{component}.safetensors")
    (out / "config.json").write_text(json.dumps(asdict(CONFIG), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

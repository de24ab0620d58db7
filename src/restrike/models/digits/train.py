"""Trains the digits card by flow matching: `python -m restrike.models.digits.train --seed 0 --out DIR`.

Two to three minutes on one thread; the same seed gives the same weights on the same machine. Draws
x_sigma = (1 - sigma) x0 + sigma noise and learns noise - x0 (Lipman et al. 2023, "Flow Matching for
Generative Modeling"). Sees the training split only.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from restrike.loops.schedule import TRAIN_TIMESTEPS
from restrike.models.digits.data import Digits, load
from restrike.models.digits.decoder import DigitsDecoder
from restrike.models.digits.text_encoder import NULL, DigitsTextEncoder
from restrike.models.digits.transformer import DigitsTransformer, TransformerConfig

AVERAGE_KEEP = 0.995


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training run; `null_share` of the samples train the empty prompt."""

    seed: int
    steps: int
    batch: int = 64
    rate: float = 2e-3
    warmup_steps: int = 40
    null_share: float = 0.12


class Denoiser(nn.Module):
    """The two modules that are trained together."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.text_encoder = DigitsTextEncoder(config.width)
        self.transformer = DigitsTransformer(config)

    def forward(self, latent_BCHW: Tensor, timestep_B: Tensor, token_B: Tensor) -> Tensor:
        return self.transformer(latent_BCHW, timestep_B, self.text_encoder(token_B))


def fitted_decoder(ink_BCHW: Tensor) -> DigitsDecoder:
    """The decoder whose latents of these digits have mean 0 at each pixel and variance 1 overall."""
    decoder = DigitsDecoder(ink_BCHW.shape[-1])
    mean_HW = ink_BCHW.mean(dim=(0, 1))
    decoder.load_state_dict({"mean_HW": mean_HW, "spread": (ink_BCHW - mean_HW).std()})
    return decoder.requires_grad_(False)


def trained(run: Run, denoiser: Denoiser, latent_BCHW: Tensor, digit_B: Tensor) -> Denoiser:
    """Train, printing progress; returns the averaged weights."""
    average = copy.deepcopy(denoiser).requires_grad_(False)
    optimizer = torch.optim.AdamW(denoiser.parameters(), lr=run.rate, betas=(0.9, 0.99), weight_decay=0.01)
    generator = torch.Generator().manual_seed(run.seed)
    began, running = time.monotonic(), 0.0
    for step in range(1, run.steps + 1):
        chosen_B = torch.randint(len(latent_BCHW), (run.batch,), generator=generator)
        loss = flow_loss(denoiser, latent_BCHW[chosen_B], digit_B[chosen_B], run.null_share, generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(denoiser.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = run.rate * _rate_share(run, step)
        optimizer.step()
        _follow(average, denoiser, min(AVERAGE_KEEP, (1 + step) / (10 + step)))
        running += float(loss.detach())
        if step % 50 == 0:
            left_s = (time.monotonic() - began) / step * (run.steps - step)
            print(f"step {step}/{run.steps}  loss {running / 50:.4f}  {left_s:.0f} s left", flush=True)
            running = 0.0
    return average


def flow_loss(
    denoiser: Denoiser, clean_BCHW: Tensor, digit_B: Tensor, null_share: float, generator: torch.Generator
) -> Tensor:
    """Mean squared error of the velocity; half of the sigmas are logit-normal, half uniform."""
    noise_BCHW = torch.randn(clean_BCHW.shape, generator=generator)
    middle_B = torch.randn(len(digit_B), generator=generator).sigmoid()
    uniform_B, coin_B, dropped_B = torch.rand(3, len(digit_B), generator=generator)
    sigma_B = torch.where(coin_B < 0.5, middle_B, uniform_B)
    token_B = torch.where(dropped_B < null_share, NULL, digit_B)
    noisy_BCHW = torch.lerp(clean_BCHW, noise_BCHW, sigma_B[:, None, None, None])
    velocity_BCHW = denoiser(noisy_BCHW, sigma_B * TRAIN_TIMESTEPS, token_B)
    return (velocity_BCHW - (noise_BCHW - clean_BCHW)).square().mean()


def _rate_share(run: Run, step: int) -> float:
    """Linear warm-up, then half a cosine to zero."""
    if step <= run.warmup_steps:
        return step / run.warmup_steps
    return 0.5 * (1 + math.cos(math.pi * (step - run.warmup_steps) / (run.steps - run.warmup_steps)))


@torch.no_grad()
def _follow(average: nn.Module, module: nn.Module, keep: float) -> None:
    for averaged, current in zip(average.parameters(), module.parameters(), strict=True):
        averaged.lerp_(current, 1 - keep)


def save(folder: Path, config: TransformerConfig, denoiser: Denoiser, decoder: DigitsDecoder) -> None:
    """Write the checkpoint: float16 weights of each component, and the configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"text_encoder": denoiser.text_encoder, "transformer": denoiser.transformer, "decoder": decoder}
    for name, module in parts.items():
        halved = {key: value.half().contiguous() for key, value in module.state_dict().items()}
        save_file(halved, folder / f"{name}.safetensors")
        # safetensors makes its files for the owner alone; these are to be shipped.
        (folder / f"{name}.safetensors").chmod(0o644)
    (folder / "config.json").write_text(json.dumps(asdict(config), indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Train from scratch and write a checkpoint folder."""
    parser = argparse.ArgumentParser(prog="python -m restrike.models.digits.train")
    parser.add_argument("--out", type=Path, required=True, help="folder that gets the checkpoint")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1500)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(asked.seed)  # the initial weights alone read the global generator
    digits: Digits = load().train
    config = TransformerConfig()
    decoder = fitted_decoder(digits.ink_BCHW)
    run = Run(seed=asked.seed, steps=asked.steps)
    average = trained(run, Denoiser(config), decoder.encode(digits.ink_BCHW), digits.digit_B)
    save(asked.out, config, average, decoder)
    print(f"wrote {asked.out}")


if __name__ == "__main__":
    main()

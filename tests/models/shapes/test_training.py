"""The training script: reproducible, resumable, and it does learn."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from restrike.models.shapes.scene import COLOURS, MOTIONS, SHAPES, Combination, SceneBatch
from restrike.models.shapes.train import bank as bank_module
from restrike.models.shapes.train.__main__ import main
from restrike.models.shapes.train.bank import LatentBank
from restrike.models.shapes.train.decoder_stage import decoder_loss
from restrike.models.shapes.train.dit_stage import draw_sigmas
from restrike.models.shapes.train.muon import orthogonalise
from restrike.models.shapes.train.run import (
    Learner,
    RunConfig,
    completed_steps,
    learning_rate,
    optimizers,
    train,
)
from restrike.models.shapes.train.vae_stage import store_statistics, vae_loss
from restrike.models.shapes.vae import ShapesVAE, VAEConfig

TINY = VAEConfig(latent_channels=2, fine_width=8, coarse_width=8)


def tiny_vae() -> ShapesVAE:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ShapesVAE(TINY)


def learner() -> Learner:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, average = nn.Linear(4, 4), nn.Linear(4, 4)
    average.load_state_dict(module.state_dict())
    return Learner(module=module, optimizers=optimizers(module, [module.weight], 0.01), average=average)


def weights(module: nn.Module | None) -> Tensor:
    assert module is not None
    return torch.cat([parameter.flatten() for parameter in module.parameters()])


def run(out: Path, steps: int, learning: Learner, save_every: int = 2) -> None:
    config = RunConfig(out=out, seed=1, steps=6, peak_rate=0.01, warmup_steps=1, save_every=save_every)

    def loss_of_step(step: int, generator: torch.Generator) -> Tensor:
        if step >= steps:
            raise KeyboardInterrupt
        return (learning.module(torch.randn(8, 4, generator=generator)) - 1).square().mean()

    train(config, learning, loss_of_step)


def test_a_resumed_run_equals_an_unbroken_one(tmp_path: Path) -> None:
    whole, first, second = learner(), learner(), learner()
    run(tmp_path / "whole", 6, whole)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", 5, first)
    run(tmp_path / "broken", 6, second)
    assert torch.equal(weights(second.module), weights(whole.module))
    assert torch.equal(weights(second.average), weights(whole.average))


def test_a_checkpoint_tells_its_step(tmp_path: Path) -> None:
    config = RunConfig(out=tmp_path, seed=1, steps=6, peak_rate=0.01)
    assert completed_steps(config) == 0
    run(tmp_path, 6, learner())
    assert completed_steps(config) == 6


def test_the_rate_rises_and_falls() -> None:
    config = RunConfig(out=Path("unused"), seed=0, steps=100, peak_rate=1.0, warmup_steps=10)
    rates = [learning_rate(config, step) for step in range(100)]
    assert rates[0] < rates[5] < rates[10] == 1.0
    assert rates[99] < 0.01
    assert rates[10:] == sorted(rates[10:], reverse=True)


@pytest.mark.parametrize("shape", [(4, 4), (3, 9), (9, 3)])
def test_orthogonalised_matrices_have_singular_values_near_one(shape: tuple[int, int]) -> None:
    matrix_AB = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(matrix_AB))
    assert float(values.min()) > 0.4
    assert float(values.max()) < 1.4


def test_sigmas_lie_between_none_and_all_noise_and_lean_to_noise() -> None:
    sigma_B = draw_sigmas(2000, torch.Generator().manual_seed(0))
    assert float(sigma_B.min()) > 0
    assert float(sigma_B.max()) < 1
    assert float(sigma_B.median()) > 0.6


def test_a_few_steps_bring_the_loss_of_the_vae_down() -> None:
    vae = tiny_vae()
    generator = torch.Generator().manual_seed(0)
    clip_BCTHW = torch.zeros(2, 3, 5, 32, 32) + 0.5
    chosen = optimizers(vae, [parameter for parameter in vae.parameters() if parameter.ndim > 1], 5e-3)
    losses: list[float] = []
    for _ in range(40):
        loss = vae_loss(vae, clip_BCTHW, generator)
        vae.zero_grad()
        loss.backward()
        for optimizer in chosen:
            for group in optimizer.param_groups:
                group["lr"] = 5e-3
            optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


def test_stored_statistics_normalise_latents() -> None:
    vae = tiny_vae()
    store_statistics(vae, torch.Generator().manual_seed(0), count=32)
    bank = LatentBank(vae, seed=0, size=32, first=0)
    latent_BCTHW = bank.draw(32, frames=bank.frames, generator=torch.Generator().manual_seed(0)).latent_BCTHW
    assert latent_BCTHW.shape == (32, 2, 5, 8, 8)
    assert abs(float(latent_BCTHW.std()) - 1) < 0.3
    assert abs(float(latent_BCTHW.mean())) < 0.5


def test_a_bank_rebuilt_later_holds_what_the_first_came_to_hold() -> None:
    vae = tiny_vae()
    first = LatentBank(vae, seed=0, size=16, first=0)
    first.renew()
    later = LatentBank(vae, seed=0, size=16, first=8)
    batches = [bank.draw(16, frames=1, generator=torch.Generator().manual_seed(5)) for bank in (first, later)]
    assert torch.equal(batches[0].latent_BCTHW, batches[1].latent_BCTHW)
    assert batches[0].captions == batches[1].captions


def test_the_bank_never_draws_a_held_out_combination(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Combination] = []
    original = bank_module.draw_scenes

    def spied(combinations: tuple[Combination, ...], count: int, generator: torch.Generator) -> SceneBatch:
        scenes = original(combinations, count, generator)
        for index in range(count):
            scene = scenes.scene(index)
            seen.append(
                Combination(
                    colour=COLOURS.index(scene.colour),
                    shape=SHAPES.index(scene.shape),
                    motion=MOTIONS.index(scene.motion),
                )
            )
        return scenes

    monkeypatch.setattr(bank_module, "draw_scenes", spied)
    LatentBank(tiny_vae(), seed=0, size=64, first=0)
    assert len(seen) == 64
    assert not any(combination.held_out for combination in seen)


def test_the_decoder_stage_leaves_the_encoder_alone() -> None:
    vae = tiny_vae()
    generator = torch.Generator().manual_seed(0)
    decoder_loss(vae, torch.zeros(1, 3, 5, 32, 32), generator).backward()
    assert all(parameter.grad is None for parameter in vae.encoder.parameters())
    assert any(parameter.grad is not None for parameter in vae.decoder.parameters())


@pytest.mark.parametrize("stage", ["dit", "decoder"])
def test_a_stage_without_a_trained_vae_says_what_to_do(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["train", "--stage", stage, "--out", str(tmp_path)])
    assert main() == 2
    assert "run --stage vae with the same --out first" in capsys.readouterr().err


def test_no_steps_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["train", "--stage", "vae", "--out", str(tmp_path), "--steps", "0"])
    with pytest.raises(SystemExit, match="2"):
        main()

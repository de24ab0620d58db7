"""The three modules on random weights: causality, padding, purity."""

from __future__ import annotations

import pytest
import torch

from restrike.models.shapes.cells import cells_of, patches_of
from restrike.models.shapes.text_encoder import ShapesTextEncoder, TextEncoderConfig
from restrike.models.shapes.tokenizer import tokenize
from restrike.models.shapes.transformer import ShapesTransformer, TransformerConfig
from restrike.models.shapes.vae import ShapesVAE, VAEConfig

SMALL = TransformerConfig(width=32, depth=2, heads=2, text_width=16, conv_width=8, cell_width=8)
TEXT = TextEncoderConfig(width=16, depth=1, heads=2)


@pytest.fixture(scope="module")
def vae() -> ShapesVAE:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ShapesVAE(VAEConfig(fine_width=8, coarse_width=16)).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def transformer() -> ShapesTransformer:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = ShapesTransformer(SMALL).eval().requires_grad_(False)
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
        return module


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(("frames", "latent_frames"), [(1, 1), (5, 2), (9, 3), (17, 5)])
def test_a_clip_of_4k_plus_1_frames_has_k_plus_1_latent_frames(
    vae: ShapesVAE, frames: int, latent_frames: int
) -> None:
    clip_BCTHW = noise(2, 3, frames, 64, 64)
    latent_BCTHW = vae.encode(clip_BCTHW)
    assert latent_BCTHW.shape == (2, 12, latent_frames, 8, 8)
    assert vae.decode(latent_BCTHW).shape == clip_BCTHW.shape


def test_the_vae_never_looks_ahead(vae: ShapesVAE) -> None:
    clip_BCTHW = noise(1, 3, 17, 64, 64)
    latent_BCTHW = vae.encode(clip_BCTHW)
    torch.testing.assert_close(vae.encode(clip_BCTHW[:, :, :9]), latent_BCTHW[:, :, :3])
    torch.testing.assert_close(vae.decode(latent_BCTHW[:, :, :2]), vae.decode(latent_BCTHW)[:, :, :5])


def test_the_vae_does_look_back(vae: ShapesVAE) -> None:
    clip_BCTHW = noise(1, 3, 5, 64, 64)
    changed_BCTHW = clip_BCTHW.clone()
    changed_BCTHW[:, :, 0] = 0
    assert not torch.allclose(vae.encode(clip_BCTHW)[:, :, 1], vae.encode(changed_BCTHW)[:, :, 1])


@pytest.mark.parametrize("frames", [1, 3, 5])
def test_the_velocity_has_the_shape_of_the_latent(transformer: ShapesTransformer, frames: int) -> None:
    latent_BCTHW = noise(2, 12, frames, 8, 8)
    mask_BL = torch.ones(2, 4, dtype=torch.bool)
    velocity_BCTHW = transformer(latent_BCTHW, torch.tensor([10.0, 900.0]), noise(2, 4, 16), mask_BL)
    assert velocity_BCTHW.shape == latent_BCTHW.shape


def test_patches_go_back_where_they_came_from() -> None:
    cells_BTHWC = noise(2, 3, 8, 8, 12)
    patches_BTHWP = patches_of(cells_BTHWC, 2)
    assert patches_BTHWP.shape == (2, 3, 4, 4, 48)
    assert torch.equal(cells_of(patches_BTHWP, 2), cells_BTHWC)


def test_a_patch_is_a_square_of_cells() -> None:
    cells_BTHWC = torch.arange(16.0).view(1, 1, 4, 4, 1)
    assert patches_of(cells_BTHWC, 2)[0, 0, 0, 1].tolist() == [2, 3, 6, 7]


def test_padding_tokens_change_nothing(transformer: ShapesTransformer) -> None:
    encoder = ShapesTextEncoder(TEXT).eval().requires_grad_(False)
    tokens = tokenize(["a red circle"])
    length = int(tokens.mask_BL.sum())
    latent_BCTHW, timestep_B = noise(1, 12, 2, 8, 8), torch.tensor([500.0])
    velocities = [
        transformer(latent_BCTHW, timestep_B, encoder(token_BL, mask_BL), mask_BL)
        for token_BL, mask_BL in (
            (tokens.token_BL, tokens.mask_BL),
            (tokens.token_BL[:, :length], tokens.mask_BL[:, :length]),
        )
    ]
    torch.testing.assert_close(velocities[0], velocities[1])


def test_items_of_a_batch_do_not_meet(transformer: ShapesTransformer) -> None:
    latent_BCTHW, text_BLD = noise(2, 12, 2, 8, 8), noise(2, 4, 16)
    mask_BL, timestep_B = torch.ones(2, 4, dtype=torch.bool), torch.tensor([100.0, 700.0])
    both = transformer(latent_BCTHW, timestep_B, text_BLD, mask_BL)
    alone = transformer(latent_BCTHW[1:], timestep_B[1:], text_BLD[1:], mask_BL[1:])
    torch.testing.assert_close(both[1:], alone)


def test_text_and_timestep_reach_the_velocity(transformer: ShapesTransformer) -> None:
    latent_BCTHW, text_BLD = noise(1, 12, 2, 8, 8), noise(1, 4, 16)
    mask_BL = torch.ones(1, 4, dtype=torch.bool)
    base = transformer(latent_BCTHW, torch.tensor([100.0]), text_BLD, mask_BL)
    assert not torch.allclose(base, transformer(latent_BCTHW, torch.tensor([900.0]), text_BLD, mask_BL))
    assert not torch.allclose(base, transformer(latent_BCTHW, torch.tensor([100.0]), -text_BLD, mask_BL))

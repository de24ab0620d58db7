"""Previews of latents whose make is not known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from restrike.models.pipeline.preview import picture_of_latent


@pytest.mark.parametrize(
    ("shape", "aspect", "expected"),
    [
        ((1, 4, 6, 8), 1.0, (1, 6, 8, 3)),
        ((1, 16, 5, 6, 8), None, (5, 6, 8, 3)),
        ((1, 5, 16, 6, 8), None, (5, 6, 8, 3)),
        ((2, 48, 64), 0.75, (1, 6, 8, 3)),
        ((1, 2, 6, 8), 1.0, (1, 6, 8, 3)),
    ],
)
def test_a_grid_is_shown(shape: tuple[int, ...], aspect: float | None, expected: tuple[int, ...]) -> None:
    picture = picture_of_latent(torch.randn(shape, generator=torch.Generator().manual_seed(0)), aspect)
    assert picture is not None
    assert (picture.shape, picture.dtype) == (expected, np.uint8)
    assert picture.std() > 20


@pytest.mark.parametrize(("shape", "aspect"), [((1, 48, 64), None), ((1, 47, 64), 0.75), ((4, 4), 1.0)])
def test_what_is_no_grid_is_not_guessed(shape: tuple[int, ...], aspect: float | None) -> None:
    assert picture_of_latent(torch.zeros(shape), aspect) is None


def test_a_broken_latent_does_not_break_the_preview() -> None:
    assert picture_of_latent(torch.full((1, 4, 2, 2), torch.nan), 1.0) is not None


def test_the_halves_of_a_latent_are_told_apart() -> None:
    latent = torch.zeros(1, 4, 8, 8)
    latent[..., 4:] = 1
    picture = picture_of_latent(latent, 1.0)
    assert picture is not None
    assert abs(int(picture[0, 0, 0, 0]) - int(picture[0, 0, 7, 0])) > 50

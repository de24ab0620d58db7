"""The hoisted forward against the transformer's own: equal bit for bit, whatever its layers are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from restrike.cards.checkpoint import Checkpoint
from restrike.cards.placement import Placement
from restrike.models.wan import denoiser
from restrike.models.wan.loading import load_transformer

from .conftest import Checkpoints
from .tiny import TEXT_WIDTH, TinyWan

SIZES_THW = (3, 6, 4)
TOKENS = 3 * 3 * 2
CPU = torch.device("cpu")


def transformer(folder: Path, dtype: str = "float32") -> Any:
    placement = Placement(device="cpu", dtype=dtype)
    return load_transformer(Checkpoint(root=folder, name="tiny"), placement, "transformer")


def noise(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(9)).to(dtype)


def ours_and_theirs(module: Any, timestep: Tensor, image_BLD: Tensor | None = None) -> tuple[Tensor, Tensor]:
    batch = timestep.shape[0]
    latent_BCTHW = noise(batch, module.config.in_channels, *SIZES_THW, dtype=module.dtype)
    text_BLD = noise(batch, 512, TEXT_WIDTH)
    with torch.inference_mode():
        inputs = {
            "context": denoiser.project_text(module, text_BLD, image_BLD),
            **denoiser.rotary_tables(module, latent_BCTHW.shape, CPU),
        }
        ours = denoiser.velocity(module, latent_BCTHW, timestep, inputs)
        theirs = module(
            hidden_states=latent_BCTHW,
            timestep=timestep,
            encoder_hidden_states=text_BLD.to(module.dtype),
            encoder_hidden_states_image=None if image_BLD is None else image_BLD.to(module.dtype),
            return_dict=False,
        )[0]
    return ours, theirs


def assert_equal(module: Any, timestep: Tensor, image_BLD: Tensor | None = None) -> None:
    ours, theirs = ours_and_theirs(module, timestep, image_BLD)
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "timestep",
    [
        torch.tensor([500]),
        torch.tensor([999.5]),
        torch.tensor([7, 900]),
        torch.arange(2 * TOKENS).view(2, TOKENS).float(),
    ],
    ids=["integer", "real", "batch", "each token"],
)
def test_text_to_video(text_checkpoint: Path, dtype: str, timestep: Tensor) -> None:
    assert_equal(transformer(text_checkpoint, dtype), timestep)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_image_tokens(checkpoints: Checkpoints, dtype: str) -> None:
    module = transformer(checkpoints(TinyWan(image=True, image_tokens=True)), dtype)
    assert_equal(module, torch.tensor([500]), noise(1, 17, 8))


class LowRank(nn.Module):
    """A linear layer with an adapter beside it, as LoRA puts one in its place."""

    def __init__(self, base: nn.Module, width_in: int, width_out: int) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Parameter(noise(2, width_in))
        self.up = nn.Parameter(noise(width_out, 2))

    def forward(self, hidden: Tensor) -> Tensor:
        """The base's output and the adapter's."""
        return self.base(hidden) + hidden @ self.down.T @ self.up.T


def test_adapters_act(text_checkpoint: Path) -> None:
    plain, _ = ours_and_theirs(transformer(text_checkpoint), torch.tensor([500]))
    module = transformer(text_checkpoint)
    embedder, block = module.condition_embedder, module.blocks[0]
    block.attn2.to_k = LowRank(block.attn2.to_k, 24, 24)
    embedder.text_embedder.linear_1 = LowRank(embedder.text_embedder.linear_1, TEXT_WIDTH, 24)
    module.proj_out = LowRank(module.proj_out, 24, 64)
    ours, theirs = ours_and_theirs(module, torch.tensor([500]))
    assert torch.equal(ours, theirs)
    assert not torch.equal(ours, plain)


def test_attention_processors_act(text_checkpoint: Path) -> None:
    module = transformer(text_checkpoint)
    usual = module.blocks[0].attn1.processor

    def doubled(attention: Any, hidden: Tensor, *rest: Any) -> Tensor:
        return 2 * usual(attention, hidden, *rest)

    module.blocks[0].attn1.processor = doubled
    assert_equal(module, torch.tensor([500]))


def test_a_table_off_by_one_ulp_is_seen(text_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = denoiser.rotary_tables

    def off(*arguments: Any) -> dict[str, Tensor]:
        found = tables(*arguments)
        return found | {"rotary_sin": found["rotary_sin"].nextafter(torch.tensor(9.0))}

    monkeypatch.setattr(denoiser, "rotary_tables", off)
    ours, theirs = ours_and_theirs(transformer(text_checkpoint), torch.tensor([500]))
    assert not torch.equal(ours, theirs)

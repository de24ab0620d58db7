"""Our attention processor against diffusers' own, bit for bit, and where it is put."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from restrike.models.wan.attention import RotarySelfAttention, with_rotary_attention

HEADS = 2


def attention_of(head_width: int, dtype: torch.dtype) -> Any:
    """A Wan attention with random weights, and diffusers' processor."""
    from diffusers.models.transformers.transformer_wan import WanAttention, WanAttnProcessor

    width = HEADS * head_width
    with torch.random.fork_rng():
        torch.manual_seed(3)
        made = WanAttention(width, HEADS, head_width, eps=1e-6, processor=WanAttnProcessor())
        for norm in (made.norm_q, made.norm_k):
            torch.nn.init.normal_(norm.weight)
    return made.to(dtype).eval().requires_grad_(False)


def both(attention: Any, batch: int, tables: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The result of our processor and of the one that the attention has."""
    width = attention.to_q.in_features
    generator = torch.Generator().manual_seed(4)
    hidden_BSD = torch.randn(batch, 19, width, generator=generator).to(dtype)
    angle = torch.randn(tables, 19, 1, width // HEADS // 2, generator=generator).repeat_interleave(2, dim=-1)
    rotary = (angle.cos(), angle.sin())
    with torch.inference_mode():
        theirs = attention(hidden_BSD, None, None, rotary)
        return RotarySelfAttention()(attention, hidden_BSD, None, None, rotary), theirs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("head_width", [12, 32, 128])
@pytest.mark.parametrize(("batch", "tables"), [(1, 1), (3, 1), (3, 3)])
def test_it_equals_diffusers(head_width: int, batch: int, tables: int, dtype: torch.dtype) -> None:
    ours, theirs = both(attention_of(head_width, dtype), batch, tables, dtype)
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours, theirs)


def test_fused_projections_are_those_of_the_attention() -> None:
    attention = attention_of(32, torch.float32)
    attention.fuse_projections()
    assert torch.equal(*both(attention, 2, 1, torch.float32))


def test_an_angle_off_by_a_little_is_seen() -> None:
    attention = attention_of(32, torch.float32)
    ours, theirs = both(attention, 1, 1, torch.float32)
    attention.norm_q.eps *= 1.01
    assert torch.equal(ours, theirs)
    assert not torch.equal(both(attention, 1, 1, torch.float32)[0], theirs)


def test_it_takes_the_place_of_the_usual_processor_alone(text_checkpoint: Path) -> None:
    from diffusers.models.transformers.transformer_wan import WanAttnProcessor

    from .test_denoiser import transformer

    module = transformer(text_checkpoint)
    assert all(type(block.attn1.processor) is RotarySelfAttention for block in module.blocks)
    assert all(type(block.attn2.processor) is WanAttnProcessor for block in module.blocks)
    own = lambda *arguments: arguments[1]  # noqa: E731
    module.blocks[0].attn1.processor = own
    assert with_rotary_attention(module).blocks[0].attn1.processor is own

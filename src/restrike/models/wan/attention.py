"""The self-attention of the Wan transformer with norm and rotary turn as one op of the kernel registry.

Equals diffusers' own processor bit for bit where the op is exact, and keeps nothing. Axes: B items, S tokens,
D channels of all heads, H heads, E channels of one head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from restrike.engine.kernels.ops import rms_rotary


class RotarySelfAttention:
    """An attention processor, as diffusers calls one. The two attributes are diffusers' to set."""

    _attention_backend = None
    _parallel_config = None

    def __call__(
        self,
        attention: Any,
        hidden_BSD: Tensor,
        text_BLD: None,
        mask: Tensor | None,
        rotary: tuple[Tensor, Tensor],
    ) -> Tensor:
        """Self-attention of the tokens (BSD), each turned by its place in space and time."""
        from diffusers.models.attention_dispatch import dispatch_attention_fn

        query_BSD, key_BSD, value_BSD = _projected(attention, hidden_BSD)
        norm_query, norm_key, heads = attention.norm_q, attention.norm_k, attention.heads
        mixed_BSHE = dispatch_attention_fn(
            rms_rotary(query_BSD, norm_query.weight, *rotary, norm_query.eps, heads),
            rms_rotary(key_BSD, norm_key.weight, *rotary, norm_key.eps, heads),
            value_BSD.unflatten(2, (heads, -1)),
            attn_mask=mask,
            backend=self._attention_backend,
            parallel_config=self._parallel_config,
        )
        result_BSD = mixed_BSHE.flatten(2).type_as(query_BSD)
        for layer in attention.to_out:
            result_BSD = layer(result_BSD)
        return result_BSD


def _projected(attention: Any, hidden_BSD: Tensor) -> tuple[Tensor, ...]:
    if attention.fused_projections:
        return attention.to_qkv(hidden_BSD).chunk(3, dim=-1)
    return attention.to_q(hidden_BSD), attention.to_k(hidden_BSD), attention.to_v(hidden_BSD)


def with_rotary_attention(transformer: Any) -> Any:
    """The transformer with this processor in the place of each of diffusers' own for self-attention."""
    from diffusers.models.transformers.transformer_wan import WanAttnProcessor

    for block in transformer.blocks:
        attention = block.attn1
        usual = type(attention.processor) is WanAttnProcessor
        if usual and all(type(norm) is torch.nn.RMSNorm for norm in (attention.norm_q, attention.norm_k)):
            attention.processor = RotarySelfAttention()
    return transformer

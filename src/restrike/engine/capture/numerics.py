"""The switches of the process that decide which kernels a step runs, as one value. Reads, never sets."""

from __future__ import annotations

from collections.abc import Hashable

import torch

_PARTS = ("all", "matmul", "conv", "rnn")
_PLACES = tuple((("generic", "all"), *((backend, part) for part in _PARTS)) for backend in ("cuda", "mkldnn"))
"""Where the precision of float32 is set: on a GPU, and on a CPU."""


def numerics(device: torch.device) -> tuple[Hashable, ...]:
    """Autocast, default dtype, matmul precision, attention backends, determinism, threads, inference mode."""
    kind = device.type
    shared = (
        torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None,
        torch.get_default_dtype(),
        *_precisions(kind),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
        torch.backends.mkldnn.enabled,
        _attention(),
    )
    return (*shared, torch.get_num_threads()) if kind == "cpu" else (*shared, *_cuda_switches())


def _precisions(kind: str) -> tuple[Hashable, ...]:
    # Once a program has set one of the newer switches, torch refuses to tell the older ones.
    told = getattr(torch._C, "_get_fp32_precision_getter", None)
    if told is not None:
        return tuple(told(*place) for place in _PLACES[kind == "cpu"])
    older = torch.get_float32_matmul_precision()
    if kind == "cpu":
        return (older,)
    return older, torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def _attention() -> tuple[bool, ...]:
    # These switches choose the attention kernel on every device.
    return (
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cuda.cudnn_sdp_enabled(),
    )


def _cuda_switches() -> tuple[Hashable, ...]:
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    return (
        matmul.allow_fp16_reduced_precision_reduction,
        matmul.allow_bf16_reduced_precision_reduction,
        cudnn.enabled,
        cudnn.deterministic,
        cudnn.benchmark,
    )

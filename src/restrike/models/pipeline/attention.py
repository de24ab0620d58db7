"""Another attention backend for one loaded pipeline; all others keep theirs.

Diffusers' own `set_attention_backend` of a model also changes what every other model of the process uses.
"""

from __future__ import annotations

from typing import Any

import torch

from restrike.errors import Refused, Unknown
from restrike.models.pipeline.folder import TRUST
from restrike.models.pipeline.installed import attention_backends

FROM_HUB = "_hub"


def with_attention(pipeline: Any, name: str, *, code_trusted: bool) -> None:
    """Let every attention of the pipeline that can choose its backend use this one.

    Raises:
        Unknown: diffusers has no such backend.
        Refused: what it needs is not installed, it would fetch code that is not trusted, or no attention of
            the pipeline can choose.
    """
    if name not in attention_backends():
        raise Unknown("attention backend", name, attention_backends())
    if name.endswith(FROM_HUB) and not code_trusted:
        raise Refused(f"attention backend '{name}' runs code from the hub; if you trust it pass {TRUST}")
    processors: list[Any] = [
        processor
        for part in pipeline.components.values()
        if isinstance(part, torch.nn.Module)
        for module in part.modules()
        if hasattr(processor := getattr(module, "processor", None), "_attention_backend")
    ]
    if not processors:
        raise Refused(
            f"attention backend '{name}' has no effect on {type(pipeline).__name__}, "
            "whose attention cannot choose"
        )
    backend = _ready(name)
    for processor in processors:
        processor._attention_backend = backend


def _ready(name: str) -> Any:
    from diffusers.models import attention_dispatch

    backend = attention_dispatch.AttentionBackendName(name)
    try:
        # What diffusers' own setter does before it changes the backend of the whole process.
        attention_dispatch._check_attention_backend_requirements(backend)
        attention_dispatch._maybe_download_kernel_for_backend(backend)
    except (RuntimeError, ImportError, OSError, ValueError) as error:
        raise Refused(f"attention backend '{name}': {' '.join(str(error).split())}") from error
    return backend

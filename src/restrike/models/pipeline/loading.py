"""Loads the pipeline of a checkpoint onto a placement: safetensors only, from the folder only.

It changes no setting of diffusers or transformers.
"""

from __future__ import annotations

from typing import Any

import torch

from restrike.cards.checkpoint import Checkpoint
from restrike.cards.placement import Placement
from restrike.errors import Refused
from restrike.models.pipeline.folder import read


def load(checkpoint: Checkpoint, placement: Placement) -> Any:
    """The checkpoint's `DiffusionPipeline`, every module in eval mode.

    Raises:
        NotFound: a file is missing.
        Refused: the folder is not one that may be loaded (see `folder.read`), or diffusers rejects it.
    """
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline

    folder = read(checkpoint)
    try:
        pipeline = DiffusionPipeline.from_pretrained(
            str(checkpoint.root),
            dtype=getattr(torch, placement.dtype),
            variant=folder.variant,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=checkpoint.code_trusted,
        )
    except (OSError, ValueError, ImportError, AttributeError, KeyError, TypeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = " ".join(str(error).split())
        raise Refused(f"checkpoint '{checkpoint.name}' does not load as {folder.name}: {reason}") from error
    return pipeline.to(torch.device(placement.device))

"""Builds the components of a Wan checkpoint with diffusers and transformers, each from its own folder.

Only safetensors are read, no code of a checkpoint is run, and a component that is not whole is refused by
name: nothing is left at a random initial value.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from restrike.cards.checkpoint import Checkpoint
from restrike.cards.placement import Placement
from restrike.errors import NotFound, Refused
from restrike.models.libraries import libraries
from restrike.models.wan.attention import with_rotary_attention
from restrike.models.wan.layout import INDEX
from restrike.models.wan.sampler import SchedulerSettings, settings_of


def load_transformer(checkpoint: Checkpoint, placement: Placement, folder: str) -> Any:
    """The denoiser, in the placement's dtype but for the parts that Wan keeps in float32."""
    with libraries("wan"):
        from diffusers.models.transformers.transformer_wan import WanTransformer3DModel

        made = _model(WanTransformer3DModel, checkpoint, placement, folder, placement.dtype)
        return with_rotary_attention(made)


def load_vae(checkpoint: Checkpoint, placement: Placement) -> Any:
    """The video autoencoder, always in float32: in half precision its colours band."""
    with libraries("wan"):
        from diffusers.models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan

        return _model(AutoencoderKLWan, checkpoint, placement, "vae", "float32")


def load_text_encoder(checkpoint: Checkpoint, placement: Placement) -> Any:
    """The umT5 encoder."""
    with libraries("wan"):
        from transformers import UMT5EncoderModel

        _of_type(checkpoint, "text_encoder", "umt5")
        return _model(UMT5EncoderModel, checkpoint, placement, "text_encoder", placement.dtype)


def load_image_encoder(checkpoint: Checkpoint, placement: Placement) -> Any:
    """The CLIP vision encoder of Wan 2.1 image to video, in float32; it runs once a request."""
    with libraries("wan"):
        from transformers import CLIPVisionModel

        _of_type(checkpoint, "image_encoder", "clip_vision_model")
        return _model(CLIPVisionModel, checkpoint, placement, "image_encoder", "float32")


def load_tokenizer(checkpoint: Checkpoint, placement: Placement) -> Any:
    """The tokenizer, of the class that `model_index.json` names."""
    with libraries("wan"):
        import transformers

        named = (checkpoint.json(INDEX).get("tokenizer") or [None, None])[1]
        kind = getattr(transformers, str(named), None)
        if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedTokenizerBase)):
            raise Refused(f"checkpoint '{checkpoint.name}': {INDEX} names no tokenizer class ('{named}')")
        return _built(checkpoint, "tokenizer", lambda: _pretrained(kind, checkpoint, "tokenizer"))


def load_image_processor(checkpoint: Checkpoint, placement: Placement) -> Any:
    """What brings a picture into the form that the CLIP encoder reads."""
    with libraries("wan"):
        from transformers import AutoImageProcessor

        load = lambda: _pretrained(AutoImageProcessor, checkpoint, "image_processor")  # noqa: E731
        return _built(checkpoint, "image_processor", load)


def _pretrained(kind: Any, checkpoint: Checkpoint, folder: str) -> Any:
    return kind.from_pretrained(checkpoint.root / folder, local_files_only=True)


def _of_type(checkpoint: Checkpoint, folder: str, expected: str) -> None:
    found = checkpoint.json(f"{folder}/config.json").get("model_type")
    if found != expected:
        raise Refused(
            f"checkpoint '{checkpoint.name}': {folder}/config.json is of model_type '{found}', "
            f"card 'wan' reads '{expected}'"
        )


def _model(kind: Any, checkpoint: Checkpoint, placement: Placement, folder: str, dtype: str) -> Any:
    """One module, whole, frozen, in eval mode, on its device."""
    import torch

    root = checkpoint.root / folder
    checkpoint.json(f"{folder}/config.json")
    _whole(checkpoint, root)
    model, report = _built(
        checkpoint,
        folder,
        lambda: kind.from_pretrained(
            root,
            torch_dtype=getattr(torch, dtype),
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        ),
    )
    missing = sorted(str(name) for name in report.get("missing_keys", ()))
    if missing:
        raise Refused(
            f"checkpoint '{checkpoint.name}': component '{folder}' lacks {len(missing)} tensor(s), "
            f"the first being {missing[0]}"
        )
    return model.to(placement.device).eval().requires_grad_(False)


def _built(checkpoint: Checkpoint, folder: str, build: Callable[[], Any]) -> Any:
    """What `build` makes; a fault of the checkpoint becomes one line that names the component."""
    import torch

    try:
        return build()
    except torch.OutOfMemoryError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise Refused(
            f"checkpoint '{checkpoint.name}': component '{folder}' cannot be built: {reason}"
        ) from error


def _whole(checkpoint: Checkpoint, root: Path) -> None:
    """Refuse weights that are absent, incomplete or torn, by the name of the file."""
    from safetensors import SafetensorError, safe_open

    where = f"checkpoint '{checkpoint.name}'"
    present = sorted(path.name for path in root.glob("*.safetensors"))
    wanted = sorted(
        {name for index in root.glob("*.safetensors.index.json") for name in _shards(where, index)}
    )
    absent = [name for name in wanted if name not in present]
    if absent:
        raise NotFound(f"{where} has no {root.name}/{absent[0]}, which its index lists")
    if not present:
        raise NotFound(f"{where} has no weights of component '{root.name}' ({root.name}/*.safetensors)")
    for name in present:
        try:
            with safe_open(root / name, framework="pt"):
                pass
        except SafetensorError as error:
            raise Refused(f"{where}: {root.name}/{name} is torn ({error})") from error


def _shards(where: str, index: Path) -> set[str]:
    try:
        return set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError) as error:
        raise Refused(f"{where}: {index.parent.name}/{index.name} is not an index of weights") from error


def load_scheduler(checkpoint: Checkpoint, placement: Placement) -> SchedulerSettings:
    """The checkpoint's own schedule and solver; raises as `settings_of`."""
    return settings_of(checkpoint)

"""LoRAs of a loaded pipeline: each is bound whole, or refused with what of it found no place.

It writes into the modules of the pipeline it is given, so these must be the pipeline's own.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from restrike.cards import adapters as cards
from restrike.errors import Refused
from restrike.keys import Digest, file_digest
from restrike.models.pipeline.installed import EXTRA, is_installed
from restrike.models.pipeline.options import Adapter
from restrike.models.pipeline.scope import request_scoped, structural_copy

_SHOWN = 4
_HOOKS = ("_hf_hook", "_diffusers_hook")
_LOADERS = ("diffusers.loaders.lora_base", "diffusers.loaders.peft")
_ROLES = ("lora", "lokr")
_SAFE = {"use_safetensors": True, "local_files_only": True}


def adapted_copy(loaded: Any, adapters: tuple[cards.Adapter, ...]) -> Any:
    """The pipeline of one request under settled adapters: modules of its own that share every loaded tensor.

    Raises:
        Refused: as `with_adapters`, or the pipeline moves its weights by hooks, which a copy cannot share.
    """
    parts = [part for part in loaded.components.values() if isinstance(part, torch.nn.Module)]
    if any(hasattr(part, hook) for part in parts for hook in _HOOKS):
        raise Refused(
            f"{type(loaded).__name__} is offloaded, so it takes adapters only when it is loaded: as `loras`"
        )
    own = request_scoped(loaded)
    structural_copy(own)
    with_adapters(own, tuple(_loadable(adapter) for adapter in adapters))
    return own


def _loadable(adapter: cards.Adapter) -> Adapter:
    assert adapter.file is not None
    assert adapter.digest is not None
    return Adapter(
        file=adapter.file, digest=Digest(adapter.digest), scale=adapter.strength, name=adapter.name
    )


def with_adapters(pipeline: Any, adapters: tuple[Adapter, ...]) -> None:
    """Load the adapters in their order and set their strengths.

    Raises:
        Refused: the pipeline takes none, a file was changed, or one does not bind, or not all of it.
    """
    kind = type(pipeline).__name__
    if not is_installed("peft"):
        raise Refused(f"a LoRA needs peft: {EXTRA}")
    if not hasattr(pipeline, "load_lora_weights"):
        raise Refused(f"{kind} takes no LoRA")
    # The authors' names stay out of the modules: they may hold what no module's name may.
    names = [f"lora_{index}" for index in range(len(adapters))]
    for name, adapter in zip(names, adapters, strict=True):
        _bind(pipeline, name, adapter)
    pipeline.set_adapters(names, adapter_weights=[adapter.scale for adapter in adapters])


def _bind(pipeline: Any, name: str, adapter: Adapter) -> None:
    whose = f"LoRA '{adapter.name}'"
    if file_digest(adapter.file) != adapter.digest:
        raise Refused(f"{whose} was changed while it was used; run it again")
    try:
        with _silent():
            held = _held(pipeline, adapter)
            pipeline.load_lora_weights(str(adapter.file), adapter_name=name, **_SAFE)
    except (ValueError, KeyError, RuntimeError, AttributeError, TypeError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise Refused(f"{whose} does not load into {type(pipeline).__name__}: {reason}") from error
    tensors = held[0] if isinstance(held, tuple) else held
    wanted = {
        key: _place(key)
        for key in tensors
        if any(role in key for role in _ROLES) and not key.endswith(".alpha")
    }
    bound = {_place(key) for key in _bound(pipeline, name)}
    lost = [key for key, place in wanted.items() if place not in bound]
    invented = sorted(bound - set(wanted.values()))
    if not bound or lost:
        raise Refused(
            f"{whose} binds {len(wanted) - len(lost)} of its {len(wanted)} tensors to "
            f"{type(pipeline).__name__}; no place for {_listed(lost)}"
        )
    if invented:
        # Peft would fill these at random.
        raise Refused(f"{whose} lacks tensors for {_listed(invented)}")


@contextmanager
def _silent() -> Iterator[None]:
    """Without what the loaders say: components that a LoRA leaves alone, and that it is not the only one."""
    logs = [logging.getLogger(name) for name in _LOADERS]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Already found a `peft_config`")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _held(pipeline: Any, adapter: Adapter) -> Any:
    """The tensors of the file under the names that diffusers gives them."""
    from diffusers.loaders.lora_pipeline import StableDiffusionXLLoraLoaderMixin

    # Its blocks are numbered by the configuration in files of other programs.
    numbered = issubclass(type(pipeline), StableDiffusionXLLoraLoaderMixin)
    asked = {"unet_config": pipeline.unet.config} if numbered else {}
    return pipeline.lora_state_dict(str(adapter.file), **asked, **_SAFE)


def _bound(pipeline: Any, name: str) -> Iterator[str]:
    """The names of the adapter's tensors in the pipeline's modules, `unet.mid.to_q.lora_A.weight`."""
    for component, part in pipeline.components.items():
        if isinstance(part, torch.nn.Module):
            for steps in (key.split(".") for key, _ in part.named_parameters()):
                if name in steps:
                    yield ".".join([component, *(step for step in steps if step != name)])


def _place(key: str) -> str:
    """Where a tensor belongs, alike in the spellings of diffusers and of peft."""
    for old, new in (
        (".processor.", "."),
        ("_lora.", ".lora."),
        (".lora_linear_layer.", ".lora."),
        (".lora.down.", ".lora_A."),
        (".lora.up.", ".lora_B."),
        (".lora_down.", ".lora_A."),
        (".lora_up.", ".lora_B."),
        ("to_out.lora", "to_out.0.lora"),
        ("text_model.", ""),
    ):
        key = key.replace(old, new)
    return key


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more

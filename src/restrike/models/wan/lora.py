"""Names of Wan's LoRAs: what other trainers call a layer becomes what diffusers, and so the module, calls it.

The renaming is diffusers' own; what it would leave out in silence is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from restrike.errors import Refused
from restrike.models.libraries import libraries

_FOREIGN = ("diffusion_model.", "lora_unet_")


def peft_names(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The tensors of a LoRA under the names of peft; those that have them already stay as they are.

    Raises:
        Refused: diffusers knows no such names, or has no place for tensors that are not zero.
    """
    if not any(name.startswith(_FOREIGN) for name in tensors):
        return tensors
    lost = [name for name, value in tensors.items() if _left_out(name, tensors) and bool(value.any())]
    if lost:
        raise Refused(f"the LoRA changes {len(lost)} tensors that no LoRA layer holds, such as '{lost[0]}'")
    with libraries("wan"):
        from diffusers.loaders.lora_pipeline import WanLoraLoaderMixin

        try:
            found: Any = WanLoraLoaderMixin.lora_state_dict(dict(tensors), local_files_only=True)
            return found
        except (ValueError, KeyError, RuntimeError, IndexError) as error:
            reason = " ".join(str(error).split())
            raise Refused(f"diffusers does not know the names of this LoRA: {reason}") from error


def _left_out(name: str, tensors: Mapping[str, Tensor]) -> bool:
    """Whether the renaming drops it: changes of norms, and of a projection without weights in the file."""
    if "norm" in name and name.endswith((".diff", ".diff_b")):
        return True
    projection = "diffusion_model.time_projection"
    return name.startswith(projection) and not any(
        key.startswith(projection) and key.endswith(".weight") for key in tensors
    )

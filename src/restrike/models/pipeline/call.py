"""A request in the words of a pipeline: which of its call arguments each field becomes.

What the request does not set stays the pipeline's own; what it sets and the pipeline lacks is refused.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from restrike.cards.request import Arguments
from restrike.errors import Refused
from restrike.models.pipeline.folder import PipelineFolder

STEP_END = "callback_on_step_end"

_NAMES: dict[str, tuple[str, ...]] = {
    "prompt": ("prompt",),
    "negative_prompt": ("negative_prompt",),
    "steps": ("num_inference_steps",),
    "guidance_2": ("guidance_scale_2",),
    "width": ("width",),
    "height": ("height",),
    "frames": ("num_frames", "video_length", "frames"),
    "fps": ("frame_rate", "fps"),
    "sigmas": ("sigmas",),
    "image": ("image",),
}
_NEVER_TAKEN = ("guidance_mode", "guidance_interval", "guidance_every", "solver", "shift")
OURS = {
    "generator": "seed and items decide the noise",
    "num_images_per_prompt": "ask for more items",
    "num_videos_per_prompt": "ask for more items",
    STEP_END: "the engine watches the steps",
    f"{STEP_END}_tensor_inputs": "the engine watches the steps",
    "callback": "the engine watches the steps",
    "callback_steps": "the engine watches the steps",
    "output_type": "the engine needs pictures",
    "return_dict": "the engine needs pictures",
}


@dataclass(frozen=True)
class Signature:
    """The named arguments of a pipeline's call, and how messages call the pipeline."""

    pipeline: str
    parameters: dict[str, inspect.Parameter]
    embedded_guidance: bool

    def home(self, field: str) -> str | None:
        """The argument that a field of a request becomes, or None when the pipeline has none for it."""
        names = (self._guidance(),) if field == "guidance" else _NAMES.get(field, ())
        return next((name for name in names if name in self.parameters), None)

    def default(self, name: str) -> Any:
        """The pipeline's own value of an argument; None when it has none."""
        found = self.parameters.get(name)
        return None if found is None or found.default is inspect.Parameter.empty else found.default

    def _guidance(self) -> str:
        # Where the transformer takes no embedded scale, `guidance_scale` is read by nobody.
        classifier_free = not self.embedded_guidance and "true_cfg_scale" in self.parameters
        return "true_cfg_scale" if classifier_free else "guidance_scale"


def signature_of(folder: PipelineFolder) -> Signature:
    """Read the signature of the pipeline's call; a catch-all (`**kwargs`) names nothing."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(folder.pipeline.__call__).parameters
    config = "transformer/config.json"
    embeds = folder.checkpoint.has(config) and folder.checkpoint.json(config).get("guidance_embeds")
    return Signature(
        folder.name,
        {name: found for name, found in parameters.items() if found.kind in named and name != "self"},
        bool(embeds),
    )


def call_arguments(signature: Signature, asked: Arguments) -> dict[str, Any]:
    """The keyword arguments of the call, without the generator and the step callback.

    Raises:
        Refused: with everything that was asked for and that this pipeline does not take.
    """
    fields = _set_fields(asked)
    faults = [
        *_homeless(signature, fields),
        *_calls(signature, asked, fields),
        *_needs(signature, asked, fields),
    ]
    if faults:
        raise Refused("; ".join(faults))
    homes = {name: signature.home(name) for name in fields}
    return {home: _plain(fields[name]) for name, home in homes.items() if home} | dict(asked.call)


def playback_fps(signature: Signature, asked: Arguments) -> float | None:
    """The frame rate of a clip: as asked, else what the pipeline assumes, else None."""
    if "fps" not in asked.left_open:
        return asked.fps
    home = signature.home("fps")
    own = asked.call.get(home, signature.default(home)) if home else None
    return float(own) if isinstance(own, int | float) else None


def _set_fields(asked: Arguments) -> dict[str, Any]:
    names = [name for name in (*_NAMES, "guidance", *_NEVER_TAKEN) if name not in asked.left_open]
    fields = {name: getattr(asked, name) for name in names}
    if asked.sigmas is not None:
        fields.pop("steps", None)
    if not asked.prompt.strip():
        del fields["prompt"]
    if asked.image is None:
        del fields["image"]
    return fields


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if hasattr(value, "__array_interface__"):
        from PIL import Image

        return Image.fromarray(value)
    return value


def _homeless(signature: Signature, fields: dict[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        # One frame is a still, and a frame rate is also a property of the file.
        harmless = name == "fps" or (name == "frames" and value == 1)
        if signature.home(name) is None and not harmless:
            yield f"{signature.pipeline} takes no {name}"


def _calls(signature: Signature, asked: Arguments, fields: dict[str, Any]) -> Iterator[str]:
    homes = {signature.home(name): name for name in (*_NAMES, "guidance")}
    taken = {home for home, name in homes.items() if name in fields}
    free = sorted(signature.parameters.keys() - OURS.keys() - taken)
    for name in asked.call:
        if name in OURS:
            yield f"call argument '{name}' is not free: {OURS[name]}"
        elif homes.get(name) in fields:
            yield f"call argument '{name}' is said twice, also as {homes[name]}"
        elif name not in signature.parameters:
            home = signature.home(name)
            near = [home] if home in free else difflib.get_close_matches(name, free, n=1)
            guess = f", did you mean '{near[0]}'?" if near else ""
            yield f"{signature.pipeline} has no call argument '{name}'{guess} (it has {', '.join(free)})"


def _needs(signature: Signature, asked: Arguments, fields: dict[str, Any]) -> Iterator[str]:
    if "generator" not in signature.parameters:
        yield f"{signature.pipeline} takes no generator, so its pictures could not be made again"
    said = fields.keys() | asked.call.keys()
    if "prompt" in signature.parameters and not said & {"prompt", "prompt_embeds"}:
        yield "prompt is empty; say what to make"
    if ("width" in said) != ("height" in said) and {"width", "height"} <= signature.parameters.keys():
        # Some pipelines put their default in place of both when one is missing.
        yield "width and height are given together or not at all"
    if "true_cfg_scale" not in signature.parameters:
        return
    guided = "guidance" in fields and signature.home("guidance") == "true_cfg_scale"
    own = asked.call.get("true_cfg_scale", signature.default("true_cfg_scale"))
    scale = fields["guidance"] if guided else own
    against = bool(said & {"negative_prompt", "negative_prompt_embeds"})
    if against and isinstance(scale, int | float) and scale <= 1:
        yield f"negative_prompt has no effect on {signature.pipeline} while true_cfg_scale is {scale:g}"
    if guided and scale > 1 and not against:
        yield f"guidance has no effect on {signature.pipeline} without a negative_prompt (a blank will do)"

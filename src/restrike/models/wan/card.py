"""The wan card: published Wan 2.1 and 2.2 weights in the diffusers layout. Imports no torch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from restrike.cards.card import (
    Component,
    Fitting,
    LoopSpec,
    ModelCard,
    Recipe,
    SamplingDefaults,
    Task,
)
from restrike.cards.compile import Compile, CompileTarget, ShapeClass
from restrike.cards.deferred import Deferred
from restrike.errors import Refused
from restrike.models.wan.layout import (
    INDEX,
    SCHEDULER_CONFIG,
    TEXT_TOKENS,
    TRANSFORMER_CONFIG,
    VAE_CONFIG,
    WanLayout,
    layout_of,
)
from restrike.models.wan.sampler import settings_of

if TYPE_CHECKING:
    from restrike.cards.checkpoint import Checkpoint

TEXT_LOOP, IMAGE_LOOP = "text-to-video", "image-to-video"
IMAGE_ENCODER_CONFIG = "image_encoder/config.json"
IMAGE_COMPONENTS = ("image_encoder", "image_processor")


def _loader(function: str, *arguments: str) -> Deferred:
    return Deferred(f"restrike.models.wan.loading:{function}", arguments)


def _weights(folder: str) -> tuple[str, ...]:
    return (f"{folder}/config.json", f"{folder}/*.safetensors", f"{folder}/*.safetensors.index.json")


def _fitted(card: ModelCard, checkpoint: Checkpoint) -> ModelCard:
    """The card with what this checkpoint can do, its sizes, and its own sampling."""
    layout = layout_of(checkpoint)
    loops = _loops(layout)
    read = {name for loop in loops for name in loop.components}
    components = tuple(part for part in COMPONENTS if part.name in read)
    defaults = _defaults(layout, checkpoint)
    return replace(
        card,
        components=components,
        loops=loops,
        defaults=defaults,
        geometry=layout.geometry,
        recipe=replace(CARD.recipe, loop=loops[0].name),
        compile=replace(
            COMPILE,
            targets=tuple(t for t in COMPILE.targets if t.component in {part.name for part in components}),
            shapes=_shapes(layout, defaults, _text_tokens(layout, checkpoint)),
        ),
    )


def _shapes(layout: WanLayout, defaults: SamplingDefaults, text_tokens: int) -> tuple[ShapeClass, ...]:
    """The checkpoint's own size on its side and upright, and a still; from text, from a picture, or both."""
    sizes = [(defaults.width, defaults.height), (defaults.height, defaults.width)]
    rows = [(*size, frames) for frames in (defaults.frames, 1) for size in dict.fromkeys(sizes)]
    return tuple(
        ShapeClass(
            width=width,
            height=height,
            frames=frames,
            guidance=defaults.guidance_mode,
            text_tokens=text_tokens,
            from_image=from_image,
        )
        for from_image, able in ((False, layout.text_to_video), (True, layout.image_to_video))
        if able
        for width, height, frames in rows
    )


def _text_tokens(layout: WanLayout, checkpoint: Checkpoint) -> int:
    """The text's tokens, and before them those of the picture where CLIP reads it: a patch each, and one."""
    if not layout.image_tokens:
        return TEXT_TOKENS
    config = checkpoint.json(IMAGE_ENCODER_CONFIG)
    try:
        side = int(config.get("image_size", 224)) // int(config.get("patch_size", 14))
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise Refused(
            f"checkpoint '{checkpoint.name}': {IMAGE_ENCODER_CONFIG} has no size of a picture and its patches"
        ) from error
    return TEXT_TOKENS + side**2 + 1


def _loops(layout: WanLayout) -> tuple[LoopSpec, ...]:
    absent = () if layout.boundary is not None else ("transformer_2",)
    absent += () if layout.image_tokens else IMAGE_COMPONENTS
    able = {TEXT_LOOP: layout.text_to_video, IMAGE_LOOP: layout.image_to_video}
    return tuple(
        replace(loop, components=tuple(name for name in loop.components if name not in absent))
        for loop in LOOPS
        if able[loop.name]
    )


def _defaults(layout: WanLayout, checkpoint: Checkpoint) -> SamplingDefaults:
    settings, usual = settings_of(checkpoint), TI2V_DEFAULTS if layout.expand_timesteps else DEFAULTS
    geometry = layout.geometry
    return replace(
        usual,
        width=geometry.width.nearest(usual.width),
        height=geometry.height.nearest(usual.height),
        frames=geometry.frames.nearest(usual.frames),
        solver=settings.solver,
        shift=settings.shift,
    )


COMPONENTS = (
    Component(
        name="tokenizer", load=_loader("load_tokenizer"), files=("tokenizer/*.json", "tokenizer/*.model")
    ),
    Component(name="text_encoder", load=_loader("load_text_encoder"), files=_weights("text_encoder")),
    Component(
        name="transformer",
        load=_loader("load_transformer", "transformer"),
        files=_weights("transformer"),
    ),
    Component(
        name="transformer_2",
        load=_loader("load_transformer", "transformer_2"),
        files=_weights("transformer_2"),
        optional=True,
    ),
    Component(name="vae", load=_loader("load_vae"), files=_weights("vae")),
    Component(name="scheduler", load=_loader("load_scheduler"), files=(SCHEDULER_CONFIG, INDEX)),
    Component(
        name="image_encoder",
        load=_loader("load_image_encoder"),
        files=_weights("image_encoder"),
        optional=True,
    ),
    Component(
        name="image_processor",
        load=_loader("load_image_processor"),
        files=("image_processor/*.json",),
        optional=True,
    ),
)
SHARED = ("tokenizer", "text_encoder", "transformer", "transformer_2", "vae", "scheduler")
SOLVERS = ("euler", "unipc", "sde")
GUIDANCE = ("none", "cfg", "batched")
LOOPS = (
    LoopSpec(
        name=TEXT_LOOP,
        tasks=(Task.TEXT_TO_VIDEO, Task.TEXT_TO_IMAGE),
        components=SHARED,
        build=Deferred("restrike.models.wan.model:text_to_video"),
        solvers=SOLVERS,
        guidance=GUIDANCE,
    ),
    LoopSpec(
        name=IMAGE_LOOP,
        tasks=(Task.IMAGE_TO_VIDEO,),
        components=(*SHARED, *IMAGE_COMPONENTS),
        build=Deferred("restrike.models.wan.model:image_to_video"),
        solvers=SOLVERS,
        guidance=GUIDANCE,
    ),
)
DEFAULTS = SamplingDefaults(
    width=832,
    height=480,
    frames=81,
    fps=16.0,
    steps=50,
    guidance=5.0,
    guidance_mode="cfg",
    solver="unipc",
    shift=3.0,
)
TI2V_DEFAULTS = replace(DEFAULTS, width=1280, height=704, frames=121, fps=24.0, shift=5.0)
LAYOUT = WanLayout(
    image_pipeline=False,
    expand_timesteps=False,
    boundary=None,
    image_tokens=False,
    latent_channels=16,
    spatial_scale=8,
    temporal_scale=4,
    patch_THW=(1, 2, 2),
    position_limit=1024,
)
INGRESS = ("latent", "timestep", "context", "rotary_cos", "rotary_sin", "noise_share", "known", "unknown")
COMPILE = Compile(
    targets=tuple(
        CompileTarget(component=name, ingress=INGRESS, text="context")
        for name in ("transformer", "transformer_2")
    ),
    shapes=_shapes(LAYOUT, DEFAULTS, TEXT_TOKENS),
    tolerance=1e-4,
)

CARD = ModelCard(
    name="wan",
    description="Wan 2.1 and 2.2 text and image to video, from a diffusers folder or a hub id",
    architecture="WanTransformer3DModel",
    license="Apache-2.0 (the weights as published)",
    components=COMPONENTS,
    loops=LOOPS,
    defaults=DEFAULTS,
    geometry=LAYOUT.geometry,
    recipe=Recipe(method="flow matching", loop=TEXT_LOOP),
    precisions=("bfloat16", "float32"),
    pipelines=("WanPipeline", "WanImageToVideoPipeline"),
    libraries=("diffusers", "transformers"),
    adapter_names=Deferred("restrike.models.wan.lora:peft_names"),
    fitting=Fitting(
        files=(TRANSFORMER_CONFIG, VAE_CONFIG, SCHEDULER_CONFIG, IMAGE_ENCODER_CONFIG), fit=_fitted
    ),
    compile=COMPILE,
)

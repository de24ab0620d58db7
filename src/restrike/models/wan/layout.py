"""What a Wan checkpoint is, read from its configuration files alone. Imports no torch, opens no weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from restrike.cards.card import Axis, Geometry
from restrike.cards.checkpoint import Checkpoint
from restrike.errors import NotFound, Refused

INDEX = "model_index.json"
TRANSFORMER_CONFIG = "transformer/config.json"
VAE_CONFIG = "vae/config.json"
SCHEDULER_CONFIG = "scheduler/scheduler_config.json"
IMAGE_TO_VIDEO_PIPELINE = "WanImageToVideoPipeline"
TEXT_TOKENS = 512


@dataclass(frozen=True, kw_only=True)
class WanLayout:
    """The facts of one checkpoint that its loops read.

    `boundary` is the timestep (0 to 1000) below which `transformer_2` denoises, None for one expert.
    `expand_timesteps` marks the Wan 2.2 TI2V kind, which is told a timestep for each token and takes text or
    an image alike. `image_tokens` marks the Wan 2.1 kind that also reads the image through a CLIP encoder.
    `patch_TWH` and the scales are in latents and pixels; `position_limit` is the most patches along one axis.
    """

    image_pipeline: bool
    expand_timesteps: bool
    boundary: float | None
    image_tokens: bool
    latent_channels: int
    spatial_scale: int
    temporal_scale: int
    patch_THW: tuple[int, int, int]
    position_limit: int

    @property
    def text_to_video(self) -> bool:
        """Whether it makes a video from text alone."""
        return self.expand_timesteps or not self.image_pipeline

    @property
    def image_to_video(self) -> bool:
        """Whether it makes a video from a picture."""
        return self.expand_timesteps or self.image_pipeline

    @property
    def geometry(self) -> Geometry:
        """Sizes in whole patches, up to the last position that the transformer knows."""
        frames, height, width = self.patch_THW
        most_frames = (self.position_limit * frames - 1) * self.temporal_scale + 1
        return Geometry(
            width=self._side(width),
            height=self._side(height),
            frames=Axis(minimum=1, maximum=most_frames, step=self.temporal_scale * frames, offset=1),
        )

    def _side(self, patch: int) -> Axis:
        step = self.spatial_scale * patch
        return Axis(minimum=step, maximum=self.position_limit * step, step=step)

    def latent_shape(self, *, frames: int, height_px: int, width_px: int) -> tuple[int, int, int, int, int]:
        """The latent (BCTHW) of a clip of that size."""
        return (
            1,
            self.latent_channels,
            (frames - 1) // self.temporal_scale + 1,
            height_px // self.spatial_scale,
            width_px // self.spatial_scale,
        )


def layout_of(checkpoint: Checkpoint) -> WanLayout:
    """Read the layout.

    Raises:
        NotFound: a configuration file or a component is missing.
        Refused: a file is torn, or describes a model that this card does not drive.
    """
    try:
        return _read(checkpoint)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise Refused(
            f"checkpoint '{checkpoint.name}': {INDEX}, {TRANSFORMER_CONFIG} or {VAE_CONFIG} holds a value of "
            f"the wrong kind ({error})"
        ) from error


def _read(checkpoint: Checkpoint) -> WanLayout:
    index = checkpoint.json(INDEX)
    transformer = _config(checkpoint, TRANSFORMER_CONFIG, "WanTransformer3DModel")
    vae = _config(checkpoint, VAE_CONFIG, "AutoencoderKLWan")
    _no_last_frame(checkpoint, transformer)
    found = WanLayout(
        image_pipeline=index.get("_class_name") == IMAGE_TO_VIDEO_PIPELINE,
        expand_timesteps=bool(index.get("expand_timesteps", False)),
        boundary=_boundary(checkpoint, index),
        image_tokens=transformer.get("image_dim") is not None,
        latent_channels=int(vae.get("z_dim", 16)),
        spatial_scale=int(vae.get("scale_factor_spatial", 8)),
        temporal_scale=int(vae.get("scale_factor_temporal", 4)),
        patch_THW=_patch(transformer.get("patch_size", (1, 2, 2))),
        position_limit=int(transformer.get("rope_max_seq_len", 1024)),
    )
    _channels_fit(checkpoint, found, int(transformer.get("in_channels", 16)))
    return found


def _patch(sizes: Any) -> tuple[int, int, int]:
    frames, height, width = map(int, sizes)
    return frames, height, width


def _config(checkpoint: Checkpoint, file: str, expected: str) -> dict[str, Any]:
    config = checkpoint.json(file)
    named = config.get("_class_name", expected)
    if named != expected:
        raise Refused(
            f"checkpoint '{checkpoint.name}': {file} is of class {named}, card 'wan' drives {expected}"
        )
    return config


def _boundary(checkpoint: Checkpoint, index: dict[str, Any]) -> float | None:
    ratio = index.get("boundary_ratio")
    if ratio is None:
        return None
    if not (index.get("transformer_2") or [None])[0]:
        raise NotFound(
            f"checkpoint '{checkpoint.name}' has no component 'transformer_2', "
            f"which boundary_ratio {ratio} in {INDEX} asks for"
        )
    train_timesteps = checkpoint.json(SCHEDULER_CONFIG).get("num_train_timesteps", 1000)
    return float(ratio) * train_timesteps


def _no_last_frame(checkpoint: Checkpoint, transformer: dict[str, Any]) -> None:
    if transformer.get("pos_embed_seq_len") is not None:
        raise Refused(
            f"checkpoint '{checkpoint.name}' wants a first and a last picture (pos_embed_seq_len in "
            f"{TRANSFORMER_CONFIG}); card 'wan' takes a first one, card 'pipeline' runs it"
        )


def _channels_fit(checkpoint: Checkpoint, layout: WanLayout, channels: int) -> None:
    expected = layout.latent_channels
    if not layout.text_to_video:
        expected = 2 * layout.latent_channels + layout.temporal_scale
    if channels != expected:
        raise Refused(
            f"checkpoint '{checkpoint.name}': in_channels {channels} in {TRANSFORMER_CONFIG} does not fit "
            f"its vae and pipeline, which need {expected}"
        )

"""Sentences for scenes. Writes words only; text_encoder/tokenizer code decides what they become.

What a caption leaves open (a size, a background, in one caption of twenty the motion) the model
learns to choose by itself.
"""

from __future__ import annotations

import torch

from restrike.models.shapes.scene import Scene

_MOTION_PHRASES = {
    "left": "moving left",
    "right": "moving right",
    "up": "moving up",
    "down": "moving down",
    "growing": "growing",
    "shrinking": "shrinking",
    "resting": "resting",
}


def caption(scene: Scene) -> str:
    """All that the scene says: ``a small red circle moving left quickly on a black background``."""
    subject = " ".join(word for word in (scene.size, scene.colour, scene.shape) if word)
    action = " ".join(word for word in (_MOTION_PHRASES.get(scene.motion), scene.speed) if word)
    ground = f"on a {scene.background} background" if scene.background else ""
    return " ".join(part for part in ("a", subject, action, ground) if part)


def training_caption(scene: Scene, *, still: bool, generator: torch.Generator) -> str:
    """A caption that leaves parts open at random; a still picture mostly says no motion."""
    keep_size, keep_speed, keep_ground, keep_motion, drop_all = torch.rand(5, generator=generator).tolist()
    if drop_all < 0.10:
        return ""
    keeps_motion = keep_motion < (0.3 if still else 0.95)
    return caption(
        Scene(
            colour=scene.colour,
            shape=scene.shape,
            motion=scene.motion if keeps_motion else "",
            background=scene.background if keep_ground < 0.9 else "",
            size=scene.size if keep_size < 0.5 else None,
            speed=scene.speed if keeps_motion and keep_speed < 0.5 else None,
        )
    )

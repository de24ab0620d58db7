"""The ops of this process, ready to be called by loops and models. Each finds its kernel at its first use."""

from __future__ import annotations

from restrike.engine.kernels.selection import Op
from restrike.engine.kernels.table import REGISTRY
from restrike.loops.ops import StepOps

guided_euler = Op("guided_euler", REGISTRY)
sde_step = Op("sde_step", REGISTRY)
modulate = Op("modulate", REGISTRY)
rms_rotary = Op("rms_rotary", REGISTRY)

STEP_OPS = StepOps(guided_euler=guided_euler, sde_step=sde_step)
"""What the engine hands to the loops that it drives."""

"""One resumable training run: the step loop, its checkpoint, its learning rate and its progress line.

Every random draw of step n comes from a generator seeded by (seed, n), so a resumed run equals an
unbroken one. Knows nothing about what is trained.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from restrike.models.shapes.train.muon import Muon

_CHECKPOINT = "checkpoint.safetensors"
_MATRIX_DECAY = 0.01
_ADAM_SHARE = 0.4
_AVERAGE_KEEP = 0.995


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """How long and how often; ``out`` is the folder of this run's checkpoint."""

    out: Path
    seed: int
    steps: int
    peak_rate: float
    warmup_steps: int = 50
    save_every: int = 250
    report_every: int = 50


@dataclass(kw_only=True)
class Learner:
    """What a checkpoint holds: the module, its optimizers, and the averaged weights if any are kept."""

    module: nn.Module
    optimizers: tuple[torch.optim.Optimizer, ...]
    average: nn.Module | None = None


def train(
    config: RunConfig, learner: Learner, loss_of_step: Callable[[int, torch.Generator], Tensor]
) -> None:
    """Runs from the checkpoint in ``config.out`` (or from step 0) to ``config.steps``."""
    step = resume(config, learner)
    first, began = step, time.monotonic()
    running = 0.0
    while step < config.steps:
        generator = torch.Generator().manual_seed(config.seed * 1_000_003 + step)
        rate = learning_rate(config, step)
        loss = loss_of_step(step, generator)
        learner.module.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(learner.module.parameters(), 1.0)
        for optimizer in learner.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * group["rate_share"]
            optimizer.step()
        step += 1
        if learner.average is not None:
            follow(learner.average, learner.module, min(_AVERAGE_KEEP, (1 + step) / (10 + step)))
        running += float(loss.detach())
        if step % config.report_every == 0:
            each = (time.monotonic() - began) / (step - first)
            left_min = each * (config.steps - step) / 60
            loss_text = f"loss {running / config.report_every:.5f}"
            print(
                f"step {step}/{config.steps}  {loss_text}  {each * 1e3:.0f} ms/step  {left_min:.1f} min left",
                flush=True,
            )
            running = 0.0
        if step % config.save_every == 0 or step == config.steps:
            save(config, learner, step)


def optimizers(
    module: nn.Module, matrices: Sequence[Tensor], rate: float
) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for the given matrices and kernels, AdamW for all else."""
    inside = {id(parameter) for parameter in matrices}
    others = [parameter for parameter in module.parameters() if id(parameter) not in inside]
    muon = Muon([{"params": matrices, "rate_share": 1.0}], lr=rate, momentum=0.9, weight_decay=_MATRIX_DECAY)
    rest = [{"params": others, "rate_share": _ADAM_SHARE}]
    return muon, torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.99), weight_decay=0.0)


def learning_rate(config: RunConfig, step: int) -> float:
    """Linear warm-up, then a half cosine to zero."""
    if step < config.warmup_steps:
        return config.peak_rate * (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return config.peak_rate * 0.5 * (1.0 + math.cos(math.pi * progress))


@torch.no_grad()
def follow(average: nn.Module, module: nn.Module, keep: float) -> None:
    """Moves the averaged weights towards the module's."""
    for averaged, current in zip(average.state_dict().values(), module.state_dict().values(), strict=True):
        averaged.lerp_(current, 1.0 - keep)


def completed_steps(config: RunConfig) -> int:
    """The step at which the checkpoint in ``config.out`` was written; 0 without one."""
    path = config.out / _CHECKPOINT
    if not path.exists():
        return 0
    with safe_open(path, framework="pt") as checkpoint:
        return int(checkpoint.get_tensor("step"))


def resume(config: RunConfig, learner: Learner) -> int:
    """Loads the newest checkpoint, if there is one, and returns its step."""
    path = config.out / _CHECKPOINT
    if not path.exists():
        return 0
    tensors = load_file(path)
    learner.module.load_state_dict(_part(tensors, "module."))
    if learner.average is not None:
        learner.average.load_state_dict(_part(tensors, "average."))
    for number, optimizer in enumerate(learner.optimizers):
        slots: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _part(tensors, f"optimizer.{number}.").items():
            index, slot = name.split(".", 1)
            slots.setdefault(int(index), {})[slot] = tensor
        optimizer.load_state_dict(optimizer.state_dict() | {"state": slots})
    return int(tensors["step"])


def save(config: RunConfig, learner: Learner, step: int) -> None:
    """Writes the checkpoint beside the old one, then renames it into place."""
    tensors = {"step": torch.tensor(step)}
    tensors |= {f"module.{name}": tensor for name, tensor in learner.module.state_dict().items()}
    if learner.average is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in learner.average.state_dict().items()}
    for number, optimizer in enumerate(learner.optimizers):
        for index, slots in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{index}.{slot}": tensor for slot, tensor in slots.items()}
    config.out.mkdir(parents=True, exist_ok=True)
    fresh = config.out / "checkpoint.part"
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, fresh)
    fresh.rename(config.out / _CHECKPOINT)


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

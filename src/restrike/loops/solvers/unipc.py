"""UniPC for flow matching: a multistep predictor with a corrector that costs no extra forward.

Equals diffusers' `UniPCMultistepScheduler` (flow prediction, x0 form) bit for bit; its history travels as
tensors and its coefficients are computed once a trajectory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from restrike.loops.ops import TORCH_OPS, StepOps
from restrike.loops.schedule import Schedule
from restrike.loops.solvers.base import SolverStep, Tensors

HIGHEST_SIGMA = 1 - 1e-6
"""As in diffusers; any value this close to 1 gives the same picture."""


@dataclass(frozen=True)
class UniPC:
    """UniPC-p with B(h) of kind `bh1` or `bh2`.

    Source: Zhao et al. 2023, "UniPC: A Unified Predictor-Corrector Framework", algorithms 5 and 8.
    """

    name: str = "unipc"
    order: int = 2
    kind: str = "bh2"
    lower_order_final: bool = True
    uncorrected: tuple[int, ...] = ()

    def plan(
        self, schedule: Schedule, device: torch.device, ops: StepOps = TORCH_OPS
    ) -> tuple[SolverStep, ...]:
        """Orders rise from 1 at the start and, if so set, fall to 1 at the end.

        Pure noise, sigma 1, has a log-SNR of minus infinity, from which no finite step leads. UniPC alone
        works in log-SNR, so the sigma is lowered here and neither the schedule nor the model is told another.
        """
        orders, path = self._orders(schedule.steps), _path(schedule.sigmas.clamp(max=HIGHEST_SIGMA))
        return tuple(self._step(path, index, orders, device) for index in range(schedule.steps))

    def _orders(self, steps: int) -> list[int]:
        orders = [min(self.order, index + 1) for index in range(steps)]
        if self.lower_order_final:
            orders = [min(order, steps - index) for index, order in enumerate(orders)]
        return orders

    def _step(self, path: _Path, index: int, orders: list[int], device: torch.device) -> SolverStep:
        predict = orders[index]
        correct = orders[index - 1] if index > 0 and index - 1 not in self.uncorrected else 0
        coefficients = {"sigma": path.sigmas[index]}
        coefficients |= _coefficients("predict", path, index, index + 1, predict, self.kind)
        history = {f"history.x0_{back}" for back in range(1, predict)}
        if correct:
            coefficients |= _coefficients("correct", path, index - 1, index, correct, self.kind)
            history |= {"history.sample"} | {f"history.x0_{back}" for back in range(1, correct + 1)}
        return SolverStep(
            structure=(self.name, self.kind, self.order, predict, correct),
            coefficients={name: value.to(device) for name, value in coefficients.items()},
            apply=partial(unipc_update, predict, correct, self.order),
            history=tuple(sorted(history)),
        )


@dataclass(frozen=True, kw_only=True)
class _Path:
    """The sigmas of a trajectory and their log-SNR, one 0-d tensor each."""

    sigmas: tuple[Tensor, ...]
    log_snrs: tuple[Tensor, ...]


def _path(sigmas: Tensor) -> _Path:
    return _Path(sigmas=sigmas.unbind(), log_snrs=(torch.log(1 - sigmas) - torch.log(sigmas)).unbind())


def _coefficients(stage: str, path: _Path, start: int, end: int, order: int, kind: str) -> dict[str, Tensor]:
    """The scalars of one stage that goes from sigma `start` to sigma `end`, float32.

    All are 0-d but `rho`, the weights (1, K) of the K differences.

    x' = scale x - x0_weight m0 - slope (rho_1 D1 + ...), with D_k = (m_k - m0) / r_k.
    """
    sigmas, log_snrs = path.sigmas, path.log_snrs
    h = log_snrs[end] - log_snrs[start]
    ratios = [(log_snrs[start - back] - log_snrs[start]) / h for back in range(1, order)]
    growth = torch.expm1(-h)
    base = -h if kind == "bh1" else growth
    alpha = 1 - sigmas[end]
    named = {"scale": sigmas[end] / sigmas[start], "x0_weight": alpha * growth, "slope": alpha * base}
    named |= {f"ratio_{back}": ratio for back, ratio in enumerate(ratios, start=1)}
    if stage == "correct":
        named["rho"] = _weights([*ratios, torch.ones(())], h, base) if order > 1 else torch.full((1,), 0.5)
    elif order == 2:
        named["rho"] = torch.full((1,), 0.5)
    elif order > 2:
        named["rho"] = _weights(ratios, h, base, terms=order)
    if "rho" in named:
        named["rho"] = named["rho"][None]
    return {f"{stage}.{name}": value for name, value in named.items()}


def _weights(ratios: list[Tensor], h: Tensor, base: Tensor, terms: int | None = None) -> Tensor:
    """Solve the order conditions: sum_k rho_k r_k^(i-1) = i! phi_(i+1)(-h) (-h) / B(h)."""
    size = len(ratios)
    stacked = torch.stack([*ratios, torch.ones(())] if terms and terms > size else ratios)
    rows, targets = [], []
    phi = torch.expm1(-h) / -h - 1
    factorial = 1
    for power in range(1, (terms or size) + 1):
        rows.append(torch.pow(stacked, power - 1))
        targets.append(phi * factorial / base)
        factorial *= power + 1
        phi = phi / -h - 1 / factorial
    return torch.linalg.solve(torch.stack(rows)[:size, :size], torch.stack(targets)[:size])


def unipc_update(
    predict: int, correct: int, keep: int, latent: Tensor, velocity: Tensor, inputs: Tensors
) -> dict[str, Tensor]:
    """Correct the latent that the last step predicted, then predict the next.

    `history.x0_k` is the x0 estimate of k steps ago, `history.sample` the corrected latent of the last step.
    """
    x0 = latent - inputs["sigma"] * velocity
    past = [inputs[name] for name in (f"history.x0_{back}" for back in range(1, keep + 1)) if name in inputs]
    if correct:
        latent = _corrected(correct, inputs["history.sample"], x0, past, inputs)
    following = _predicted(predict, latent, x0, past, inputs)
    kept = [x0, *past][:keep]
    history = {f"history.x0_{back}": value for back, value in enumerate(kept, start=1)}
    return {"latent": following, "history.sample": latent, **history}


def _moved(stage: str, sample: Tensor, x0: Tensor, inputs: Tensors) -> Tensor:
    return inputs[f"{stage}.scale"] * sample - inputs[f"{stage}.x0_weight"] * x0


def _combined(stage: str, weights_BK: Tensor, base: Tensor, others: list[Tensor], inputs: Tensors) -> Tensor:
    differences = [
        (other - base) / inputs[f"{stage}.ratio_{back}"] for back, other in enumerate(others, start=1)
    ]
    return torch.einsum("bk,bkc...->bc...", weights_BK, torch.stack(differences, dim=1))


def _predicted(order: int, sample: Tensor, x0: Tensor, past: list[Tensor], inputs: Tensors) -> Tensor:
    moved = _moved("predict", sample, x0, inputs)
    if order == 1:
        return moved
    combined = _combined("predict", inputs["predict.rho"], x0, past[: order - 1], inputs)
    return moved - inputs["predict.slope"] * combined


def _corrected(order: int, sample: Tensor, x0: Tensor, past: list[Tensor], inputs: Tensors) -> Tensor:
    base = past[0]
    moved = _moved("correct", sample, base, inputs)
    weights_BK = inputs["correct.rho"]
    newest = weights_BK[:, -1].reshape(-1, *(1,) * (x0.ndim - 1))
    correction = newest * (x0 - base)
    if order > 1:
        correction = _combined("correct", weights_BK[:, :-1], base, past[1:order], inputs) + correction
    return moved - inputs["correct.slope"] * correction

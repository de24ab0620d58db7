"""The checkpoint's own schedule, and Restrike's solver for it.

Sigmas and timesteps come from a diffusers scheduler that is made for one request and dropped; it never takes
a step, so nothing is shared between requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from restrike.cards.checkpoint import Checkpoint
from restrike.cards.request import Arguments
from restrike.errors import Refused
from restrike.models.wan.layout import SCHEDULER_CONFIG

if TYPE_CHECKING:
    from restrike.loops.schedule import Schedule
    from restrike.loops.solvers.base import Solver

EULER_CLASS = "FlowMatchEulerDiscreteScheduler"
UNIPC_CLASS = "UniPCMultistepScheduler"
SOLVER_OF = {EULER_CLASS: "euler", UNIPC_CLASS: "unipc"}
# What a step of each class must be for our solver to equal it: setting -> (its default, what is needed).
NEEDED: Mapping[str, Mapping[str, tuple[Any, Any]]] = {
    EULER_CLASS: {
        "use_dynamic_shifting": (False, False),
        "invert_sigmas": (False, False),
        "stochastic_sampling": (False, False),
    },
    UNIPC_CLASS: {
        "prediction_type": ("epsilon", "flow_prediction"),
        "use_flow_sigmas": (False, True),
        "predict_x0": (True, True),
        "thresholding": (False, False),
        "solver_p": (None, None),
        "use_dynamic_shifting": (False, False),
        "lower_order_final": (True, True),
    },
}
FLOW_UNIPC = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}


@dataclass(frozen=True, kw_only=True)
class SchedulerSettings:
    """A checkpoint's `scheduler_config.json`, known to be one that Restrike solves."""

    kind: str
    config: Mapping[str, Any]

    @property
    def solver(self) -> str:
        """The solver that the checkpoint asks for."""
        return SOLVER_OF[self.kind]

    @property
    def shift(self) -> float:
        """The shift of the schedule that the checkpoint asks for."""
        return float(self.config.get("flow_shift" if self.kind == UNIPC_CLASS else "shift", 1.0))


def settings_of(checkpoint: Checkpoint) -> SchedulerSettings:
    """Read the scheduler's settings.

    Raises:
        NotFound: the checkpoint has none.
        Refused: of another class, or with a setting that changes the step.
    """
    config = checkpoint.json(SCHEDULER_CONFIG)
    kind = str(config.get("_class_name", ""))
    where = f"checkpoint '{checkpoint.name}': {SCHEDULER_CONFIG}"
    if kind not in SOLVER_OF:
        raise Refused(
            f"{where} is of class '{kind}', card 'wan' solves {' and '.join(SOLVER_OF)}; "
            "card 'pipeline' runs it"
        )
    for name, (default, needed) in NEEDED[kind].items():
        value = config.get(name, default)
        if value != needed:
            raise Refused(f"{where} has {name} {value!r}, card 'wan' solves {needed!r}")
    settings = SchedulerSettings(kind=kind, config=config)
    try:
        settings.shift  # noqa: B018  (read here, so that a value of the wrong kind is refused by its file)
    except (TypeError, ValueError) as error:
        raise Refused(f"{where} has a shift that is not a number ({error})") from error
    return settings


def plan(settings: SchedulerSettings, arguments: Arguments) -> tuple[Schedule, Solver]:
    """The schedule and solver of a request: the checkpoint's, but for what the request says otherwise."""
    solver = _solver(settings, arguments.solver)
    if arguments.sigmas is not None:
        return _given(arguments.sigmas, arguments.solver), solver
    return _scheduled(settings, arguments), solver


def _solver(settings: SchedulerSettings, name: str) -> Solver:
    from restrike.loops.solvers.registry import solver
    from restrike.loops.solvers.unipc import UniPC

    chosen = solver(name)
    if not isinstance(chosen, UniPC) or settings.kind != UNIPC_CLASS:
        return chosen
    config = settings.config
    return replace(
        chosen,
        order=int(config.get("solver_order", 2)),
        kind="bh1" if config.get("solver_type") == "bh1" else "bh2",
        uncorrected=tuple(config.get("disable_corrector", ())),
    )


def _scheduled(settings: SchedulerSettings, arguments: Arguments) -> Schedule:
    from restrike.loops.schedule import Schedule

    wanted = UNIPC_CLASS if arguments.solver == "unipc" else EULER_CLASS
    own = dict(settings.config) if settings.kind == wanted else {}
    scheduler = _unipc(own, arguments.shift) if wanted == UNIPC_CLASS else _euler(own, arguments.shift)
    scheduler.set_timesteps(arguments.steps)
    return Schedule(sigmas=scheduler.sigmas, timesteps=scheduler.timesteps)


def _unipc(own: Mapping[str, Any], shift: float) -> Any:
    from diffusers.schedulers.scheduling_unipc_multistep import UniPCMultistepScheduler

    return UniPCMultistepScheduler.from_config({**FLOW_UNIPC, **own, "flow_shift": shift})


def _euler(own: Mapping[str, Any], shift: float) -> Any:
    from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler

    return FlowMatchEulerDiscreteScheduler.from_config({**own, "shift": shift})


def _given(sigmas: tuple[float, ...], solver: str) -> Schedule:
    import torch

    from restrike.loops.schedule import Schedule, flow_schedule
    from restrike.loops.solvers.unipc import HIGHEST_SIGMA

    if solver != "unipc":
        return flow_schedule(len(sigmas), sigmas=sigmas)
    # diffusers lowers the schedule itself, so the model is told 999 for pure noise.
    visited = flow_schedule(len(sigmas), sigmas=tuple(min(sigma, HIGHEST_SIGMA) for sigma in sigmas))
    return Schedule(sigmas=visited.sigmas, timesteps=visited.timesteps.to(torch.int64))

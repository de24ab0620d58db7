"""Runs the warm plan once, eagerly, before anything is exported.

It watches which tensors each denoiser is called with, and compiles nothing. A model whose forward dies here
is not compiled at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from restrike.cards.card import LoopSpec
from restrike.cards.compile import CompileTarget, ShapeClass
from restrike.cards.request import Arguments, resolve
from restrike.endpoints.warm import WarmRow
from restrike.engine.resident import ResidentCard
from restrike.errors import RestrikeError, Shortfall
from restrike.loops.contract import LoopContext, Tensors
from restrike.mint.cell.facts import Ingress, TensorSpec
from restrike.mint.refusals import NoSuchTarget, Subject, UndeclaredIngress, WarmForwardFailed
from restrike.mint.shortfalls import placed

Call = Callable[[Any, Tensors], Tensor]


@dataclass(frozen=True, kw_only=True)
class Observed:
    """One call of a target as the warm forward made it.

    `inputs` are contiguous copies, sorted by name, for a batch of one request; `call` is the plan's own.
    """

    target: CompileTarget
    shape: ShapeClass
    call: Call
    inputs: Mapping[str, Tensor]

    @property
    def name(self) -> str:
        """How a person names it: `transformer 64x64x17-batched`."""
        return f"{self.target.component} {self.shape.name}"

    @property
    def ingress(self) -> Ingress:
        """The named tensors of the call; the leading axis is a range where the shape class has one."""
        low, high = self.shape.batches

        def leading(size: int) -> int | tuple[int, int]:
            return size * low if low == high else (size * low, size * high)

        return Ingress(
            tensors=tuple(
                TensorSpec(
                    name=name,
                    shape=(leading(value.shape[0]), *value.shape[1:]),
                    dtype=str(value.dtype).removeprefix("torch."),
                )
                for name, value in self.inputs.items()
            )
        )

    def probe(self, batch: int) -> dict[str, Tensor]:
        """The inputs of `batch` requests together, each a little unlike the first."""
        return {
            name: torch.cat([_nudged(value, index) for index in range(batch)])
            for name, value in self.inputs.items()
        }


def observe(
    resident: ResidentCard, rows: tuple[WarmRow, ...], targets: tuple[CompileTarget, ...], subject: Subject
) -> tuple[Observed, ...]:
    """Run every row once, eagerly, with all components that its loop declares; the distinct calls of it.

    Raises:
        WarmForwardFailed: the model's code raised.
        NoSuchTarget: no row ever called a target.
        UndeclaredIngress: a call had other tensors than declared.
        Shortfall: memory ran out.
    """
    found = [seen for row in rows for seen in _row(resident, row, targets, subject)]
    reached = {seen.target.component for seen in found}
    for target in targets:
        if target.component not in reached:
            raise NoSuchTarget(
                subject,
                f"no step of the warm plan called target '{target.component}'",
                "declare the component that the loop denoises with",
            )
    return tuple(found)


def _row(
    resident: ResidentCard, row: WarmRow, targets: tuple[CompileTarget, ...], subject: Subject
) -> list[Observed]:
    spec, arguments = resolve(resident.card, row.request)
    wanted = {target.component: target for target in targets if target.component in spec.components}
    try:
        calls = list(_calls(resident, spec, arguments, set(wanted)))
    except Exception as error:
        raise _death(subject, row, error) from error
    found: dict[tuple[str, Ingress], Observed] = {}
    for component, call, inputs in calls:
        seen = Observed(target=wanted[component], shape=row.shape, call=call, inputs=inputs)
        _check(seen, subject)
        found.setdefault((component, seen.ingress), seen)
    return list(found.values())


def _death(subject: Subject, row: WarmRow, error: Exception) -> RestrikeError:
    typed = placed(error)
    if isinstance(typed, Shortfall):
        return typed
    return WarmForwardFailed(
        subject,
        f"its own forward dies on shape class '{row.shape.name}' ({typed.message})",
        "mend the model; nothing was compiled",
    )


def _calls(
    resident: ResidentCard, spec: LoopSpec, arguments: Arguments, wanted: set[str]
) -> Iterator[tuple[str, Call, dict[str, Tensor]]]:
    """The calls of the wanted components, step by step, until each was called or the loop ends."""
    loop = resident.loop(spec)
    context = LoopContext(arguments=arguments, item=0, device=resident.device, component=resident.component)
    missing = set(wanted)
    with torch.no_grad():
        state = loop.init(context)
        while missing and (plan := loop.next(state)) is not None:
            made: list[dict[str, Tensor]] = []

            def forward(branch: str, inputs: Tensors, plan: Any = plan, made: Any = made) -> Tensor:
                made.append(_copied(inputs))
                return plan.call(resident.component(plan.component), inputs)

            outputs = plan.compute(forward, plan.inputs)
            if plan.component in wanted:
                yield from ((plan.component, plan.call, inputs) for inputs in made)
            missing.discard(plan.component)
            loop.advance(state, outputs)


def _copied(inputs: Tensors) -> dict[str, Tensor]:
    return {
        name: inputs[name].detach().clone(memory_format=torch.contiguous_format) for name in sorted(inputs)
    }


def _check(seen: Observed, subject: Subject) -> None:
    target = seen.target
    odd = [name for name in seen.inputs if name not in target.ingress]
    if odd:
        raise UndeclaredIngress(
            subject,
            f"target '{target.component}' was called with '{odd[0]}', which is not in its ingress",
            f"declare it beside {', '.join(target.ingress)}",
        )
    text = seen.inputs.get(target.text)
    tokens = None if text is None else text.shape[1]
    if tokens != seen.shape.text_tokens:
        raise UndeclaredIngress(
            subject,
            f"target '{target.component}' was called with {tokens} text tokens ('{target.text}'), "
            f"shape class '{seen.shape.name}' declares {seen.shape.text_tokens}",
            "declare the length that the model reads",
        )


def _nudged(value: Tensor, index: int) -> Tensor:
    return value * (1 - 0.01 * index) if index and value.is_floating_point() else value

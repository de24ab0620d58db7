"""The one authority on what a card's compile targets are, and the one on whether this process can arm them.

Both look and change nothing: asked twice, they answer the same. "No such target" is a fault of the card or of
the wish, "cannot be armed here" one of the machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec

from restrike.cards.card import ModelCard
from restrike.cards.compile import CompileTarget
from restrike.mint.cell import capability
from restrike.mint.cell.facts import Recipe, Target
from restrike.mint.cell.host import cpu_target
from restrike.mint.refusals import CannotArm, NoSuchTarget, NothingDeclared, Subject

COMPILERS = ("g++", "clang++")


def resolve_targets(
    card: ModelCard, recipe: Recipe, wanted: tuple[str, ...] = ()
) -> tuple[CompileTarget, ...]:
    """The targets of the card that are meant: those wanted by name, all of them by default.

    Raises:
        NothingDeclared: the card declares nothing to compile.
        NoSuchTarget: it does not declare one that is wanted, or no driven loop of it could call it.
    """
    subject = Subject(card=card.name, recipe=recipe, targets=wanted)
    if card.compile is None or not card.compile.targets:
        raise NothingDeclared(subject)
    declared = {target.component: target for target in card.compile.targets}
    driven = {name for loop in card.loops if not loop.opaque for name in loop.components}
    for name in wanted or declared:
        if name not in declared:
            listed = ", ".join(declared)
            raise NoSuchTarget(
                subject, f"there is no target '{name}'", f"choose among those declared: {listed}"
            )
        if name not in driven:
            listed = ", ".join(sorted(driven)) or "nothing"
            raise NoSuchTarget(
                subject,
                f"target '{name}' is read by no loop whose steps can be seen",
                f"declare one that is: {listed}",
            )
    return tuple(declared[name] for name in wanted or declared)


class ArmingBlock(StrEnum):
    """The reason for which a process cannot arm a target, as it is counted and written down."""

    NO_TORCH = "torch is not installed"
    FOREIGN_MACHINE = "foreign machine"
    NEWER_CAPABILITY = "newer CPU capability"
    NO_GPU = "no such GPU"
    NO_TRITON = "triton is not installed"
    NO_COMPILER = "no C++ compiler"


@dataclass(frozen=True, kw_only=True)
class Block:
    """Why this process cannot arm a target, and what would let it."""

    name: ArmingBlock
    reason: str
    remedy: str


def arming_block(
    target: Target, *, compiles: bool, environment: Mapping[str, str] = os.environ
) -> Block | None:
    """Why this process cannot arm the target; None when it can.

    `compiles` says that it would compile, which needs a compiler; to adopt what is compiled needs none.
    """
    if find_spec("torch") is None:
        return Block(
            name=ArmingBlock.NO_TORCH, reason="torch is not installed", remedy="install restrike again"
        )
    return (
        _foreign(target)
        or (_gpu_block(target) if target.kind == "cuda" else None)
        or (_compiler_block(environment) if compiles else None)
    )


def require_armable(
    subject: Subject, target: Target, *, compiles: bool, environment: Mapping[str, str] = os.environ
) -> None:
    """Raise CannotArm, with the reason of `arming_block`, if there is one."""
    block = arming_block(target, compiles=compiles, environment=environment)
    if block is not None:
        raise CannotArm(subject, f"this process cannot arm {target}: {block.reason}", block.remedy)


def compiler(environment: Mapping[str, str]) -> str | None:
    """The C++ compiler that an environment names (CXX) or finds (PATH), as a path; None for none."""
    names = (environment["CXX"],) if environment.get("CXX") else COMPILERS
    found = (shutil.which(name, path=environment.get("PATH", "")) for name in names)
    return next((path for path in found if path), None)


def compiler_version(environment: Mapping[str, str] = os.environ) -> str:
    """The first line that the compiler says of itself; for people, it decides nothing."""
    found = compiler(environment)
    if found is None:
        return ""
    done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return next(iter(done.stdout.splitlines()), "")


def _foreign(target: Target) -> Block | None:
    here = cpu_target()
    if target.machine != capability.machine():
        return Block(
            name=ArmingBlock.FOREIGN_MACHINE,
            reason=f"this machine is {here.machine}",
            remedy=f"do it on a machine that is {target.machine}",
        )
    if target.order > here.order:
        return Block(
            name=ArmingBlock.NEWER_CAPABILITY,
            reason=f"this processor has {here.cpu}",
            remedy=f"ask for cpu:{here.cpu}, or do it on a newer processor",
        )
    return None


def _gpu_block(target: Target) -> Block | None:
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    present = sorted({"sm_{}{}".format(*torch.cuda.get_device_capability(n)) for n in range(count)})
    if target.gpu not in present:
        return Block(
            name=ArmingBlock.NO_GPU,
            reason=f"its GPUs are {', '.join(present) or 'none'}",
            remedy="do it on a machine with that GPU; restrike doctor lists the devices of this one",
        )
    if find_spec("triton") is None:
        return Block(
            name=ArmingBlock.NO_TRITON,
            reason="triton is not installed",
            remedy="install it: pip install triton",
        )
    return None


def _compiler_block(environment: Mapping[str, str]) -> Block | None:
    if compiler(environment) is not None:
        return None
    named = environment.get("CXX")
    return Block(
        name=ArmingBlock.NO_COMPILER,
        reason=f"CXX names '{named}', which is not there" if named else "no C++ compiler is on the PATH",
        remedy=f"install one ({' or '.join(COMPILERS)})",
    )

"""The two authorities: what the targets are, and whether this process can arm them."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from restrike.cards.registry import card
from restrike.mint import targets as authority
from restrike.mint.cell.host import cpu_target, parse_target
from restrike.mint.refusals import CannotArm, NoSuchTarget, NothingDeclared, Subject
from restrike.mint.targets import ArmingBlock, arming_block, require_armable, resolve_targets

SUBJECT = Subject(card="digits", recipe="aot", targets=("transformer",))
CPU = cpu_target()
ARMED = {"PATH": os.environ.get("PATH", "")}


def test_the_targets_are_those_declared_or_those_of_them_that_are_wanted() -> None:
    digits = card("digits")
    (target,) = resolve_targets(digits, "aot")
    assert target.component == "transformer"
    assert resolve_targets(digits, "dynamo", ("transformer",)) == (target,)


@pytest.mark.parametrize("recipe", ["aot", "dynamo"])
def test_what_no_machine_could_compile_is_no_target(recipe: authority.Recipe) -> None:
    digits = card("digits")
    with pytest.raises(NothingDeclared, match="declares nothing to compile"):
        resolve_targets(replace(digits, compile=None), recipe)
    with pytest.raises(
        NoSuchTarget, match=r"there is no target 'unet'; choose among those declared: transformer"
    ):
        resolve_targets(digits, recipe, ("unet",))


@pytest.mark.skipif(authority.compiler(ARMED) is None, reason="no C++ compiler is here")
def test_this_machine_can_arm_its_own_processor() -> None:
    assert arming_block(CPU, compiles=True, environment=ARMED) is None


@pytest.mark.parametrize(
    ("target", "environment", "name"),
    [
        (replace(CPU, machine="sparc"), ARMED, ArmingBlock.FOREIGN_MACHINE),
        (replace(CPU, cpu="AVX1024", order=CPU.order + 1), ARMED, ArmingBlock.NEWER_CAPABILITY),
        (replace(parse_target("cuda:sm_90"), gpu="sm_20"), ARMED, ArmingBlock.NO_GPU),
        (CPU, {"PATH": "/nowhere"}, ArmingBlock.NO_COMPILER),
        (CPU, {"PATH": "/nowhere", "CXX": "g++"}, ArmingBlock.NO_COMPILER),
    ],
)
def test_a_block_is_named_the_same_twice_and_nothing_changes(
    target: authority.Target, environment: dict[str, str], name: ArmingBlock
) -> None:
    before = dict(os.environ)
    blocks = [arming_block(target, compiles=True, environment=environment) for _ in range(2)]
    assert blocks[0] == blocks[1]
    assert blocks[0] is not None
    assert blocks[0].name is name
    assert dict(os.environ) == before


def test_adopting_needs_no_compiler() -> None:
    assert arming_block(CPU, compiles=False, environment={"PATH": "/nowhere"}) is None


def test_a_process_that_cannot_arm_says_what_it_lacks_and_what_to_do() -> None:
    with pytest.raises(CannotArm) as caught:
        require_armable(SUBJECT, CPU, compiles=True, environment={"PATH": "/nowhere"})
    message = caught.value.message
    assert "card 'digits', target 'transformer', recipe aot: this process cannot arm cpu" in message
    assert message.endswith("install one (g++ or clang++)")
    assert not isinstance(caught.value, NoSuchTarget)

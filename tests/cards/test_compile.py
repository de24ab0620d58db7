from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from restrike.cards.card import InvalidCard, ModelCard
from restrike.cards.compile import Compile, CompileTarget, ShapeClass

from .samples import CARD, with_defaults

TARGET = CompileTarget(component="transformer", ingress=("latent", "text", "timestep"), text="text")
SHAPE = ShapeClass(width=64, height=32, frames=9, guidance="cfg", text_tokens=16)
DECLARED = Compile(targets=(TARGET,), shapes=(SHAPE,), tolerance=1e-4)


def compiling(card: ModelCard = CARD, **changes: Any) -> ModelCard:
    return replace(card, compile=replace(DECLARED, **changes))


def test_a_declaration_without_a_fault_validates() -> None:
    card = compiling()
    assert card.validate() is card


def test_a_shape_class_has_a_name_that_tells_it_from_every_other() -> None:
    assert SHAPE.name == "64x32x9-cfg"
    assert replace(SHAPE, frames=1, guidance="none").name == "64x32-none"
    assert replace(SHAPE, batch=(2, 4)).name == "64x32x9-cfg-b2to4"
    assert replace(SHAPE, batch=3, from_image=True).name == "64x32x9-cfg-b3-image"


def test_weights_in_fewer_bits_have_a_tolerance_of_their_own() -> None:
    assert DECLARED.tolerance_in("float32") == 1e-4
    assert DECLARED.tolerance_in("bfloat16") == DECLARED.half_tolerance


BROKEN = {
    "compile.targets is empty": compiling(targets=()),
    "compile.shapes is empty": compiling(shapes=()),
    "compile target 'unet' is no component, declared are transformer, vae": compiling(
        targets=(replace(TARGET, component="unet"),)
    ),
    "compile target 'transformer' is declared 2 times": compiling(targets=(TARGET, TARGET)),
    "compile target 'transformer': text 'words' is not in its ingress, latent, text, timestep": compiling(
        targets=(replace(TARGET, text="words"),)
    ),
    "compile target 'transformer': ingress 'text' is declared 2 times": compiling(
        targets=(replace(TARGET, ingress=("text", "text")),)
    ),
    "compile.shapes '64x32x9-cfg' is declared 2 times": compiling(shapes=(SHAPE, SHAPE)),
    "compile.shapes '60x32x9-cfg': width 60, the card takes multiples of 16 from 32 to 128": compiling(
        shapes=(replace(SHAPE, width=60),)
    ),
    "compile.shapes '64x32x8-cfg': frames 8, the card takes 4k + 1 from 1 to 33": compiling(
        shapes=(replace(SHAPE, frames=8),)
    ),
    "compile.shapes '64x32x9-embedded': no loop offers guidance 'embedded'": compiling(
        shapes=(replace(SHAPE, guidance="embedded"),)
    ),
    "compile.shapes '64x32x9-cfg-image': no loop from a picture offers guidance 'cfg'": compiling(
        shapes=(replace(SHAPE, from_image=True),)
    ),
    "compile.shapes '64x32x9-cfg': guidance 'cfg' does nothing at the card's own scale 1.0": compiling(
        with_defaults(guidance=1.0)
    ),
    "compile.shapes '64x32x9-cfg': text_tokens 0 is not at least 1": compiling(
        shapes=(replace(SHAPE, text_tokens=0),)
    ),
    "compile.shapes '64x32x9-cfg-b4to2': batch (4, 2) is not at least 1, or not ascending": compiling(
        shapes=(replace(SHAPE, batch=(4, 2)),)
    ),
    "compile.tolerance 0 is not above 0 and at most 0.1": compiling(tolerance=0),
    "compile.half_tolerance 2 is not above 0 and at most 0.1": compiling(half_tolerance=2),
    "compile.options 'max_autotune' is declared 2 times": compiling(
        options=(("max_autotune", True), ("max_autotune", False))
    ),
}


@pytest.mark.parametrize(("fault", "card"), BROKEN.items(), ids=list(BROKEN))
def test_a_fault_of_the_declaration_is_named(fault: str, card: ModelCard) -> None:
    with pytest.raises(InvalidCard) as caught:
        card.validate()
    assert caught.value.faults == (fault,)


def test_the_faults_of_card_and_declaration_are_told_together() -> None:
    broken = replace(compiling(targets=(), tolerance=1), name=" ")
    with pytest.raises(InvalidCard) as caught:
        broken.validate()
    assert len(caught.value.faults) == 3

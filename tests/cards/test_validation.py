from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from restrike.cards.card import Axis, Geometry, InvalidCard, ModelCard, Recipe, Task
from restrike.errors import Refused

from .samples import CARD, LOOP, TRANSFORMER, VAE, with_defaults, with_loop


def faults(card: ModelCard) -> tuple[str, ...]:
    with pytest.raises(InvalidCard) as caught:
        card.validate()
    return caught.value.faults


def test_a_card_made_of_data_alone_validates_and_answers_what_it_declares() -> None:
    assert CARD.validate() is CARD
    assert CARD.component("vae") is VAE
    assert CARD.tasks() == (Task.TEXT_TO_VIDEO, Task.TEXT_TO_IMAGE)


def test_three_faults_are_one_error_that_lists_all_three() -> None:
    broken = replace(
        with_loop(components=("transformer", "vae", "vocoder")),
        recipe=Recipe(method="distilled", loop="few-step", precision="float16"),
    )
    with pytest.raises(Refused) as caught:
        broken.validate()
    message = str(caught.value)
    assert "card 'sample' has 3 fault(s)" in message
    assert "\n" not in message
    for part in ("'vocoder'", "'few-step'", "'float16'"):
        assert part in message


BROKEN = {
    "name is empty": replace(CARD, name=" "),
    "components is empty": replace(with_loop(components=()), components=()),
    "loops is empty": replace(CARD, loops=()),
    "component 'vae' is declared 2 times": replace(CARD, components=(TRANSFORMER, VAE, VAE)),
    "loop 'denoise' is declared 2 times": replace(CARD, loops=(LOOP, LOOP)),
    "component 'vae' names no files": replace(CARD, components=(TRANSFORMER, replace(VAE, files=()))),
    "component 'vae' is read by no loop": with_loop(components=("transformer",)),
    "loop 'denoise' reads no component": with_loop(components=()),
    "loop 'denoise' reads component 'vocoder', declared are transformer, vae": with_loop(
        components=("transformer", "vae", "vocoder")
    ),
    "loop 'denoise' serves no task": with_loop(tasks=()),
    "task 'text-to-image' is served by 2 loops": replace(
        CARD, loops=(LOOP, replace(LOOP, name="still", tasks=(Task.TEXT_TO_IMAGE,)))
    ),
    "loop 'denoise' offers no guidance, known are none, cfg, batched, embedded": with_loop(guidance=()),
    "loop 'denoise' offers guidance 'cgf', known are none, cfg, batched, embedded": with_loop(
        guidance=("cfg", "cgf")
    ),
    "loop 'denoise' has capture 'on', known are off, auto, required": with_loop(capture="on"),
    "loop 'denoise' is opaque, so its steps cannot be captured; its capture is 'required'": with_loop(
        opaque=True, capture="required"
    ),
    "recipe assumes loop 'few-step', declared are denoise": replace(
        CARD, recipe=replace(CARD.recipe, loop="few-step")
    ),
    "recipe.steps (4, 2) is not an ascending range from 1": replace(
        CARD, recipe=replace(CARD.recipe, steps=(4, 2))
    ),
    "recipe.steps (0, 8) is not an ascending range from 1": replace(
        CARD, recipe=replace(CARD.recipe, steps=(0, 8))
    ),
    "defaults.steps 20 is outside recipe.steps 4 to 4": replace(
        CARD, recipe=replace(CARD.recipe, steps=(4, 4))
    ),
    "recipe assumes precision 'float16', the card holds float32, bfloat16": replace(
        CARD, recipe=replace(CARD.recipe, precision="float16")
    ),
    "recipe names 'sample' as its own parent": replace(
        CARD, recipe=replace(CARD.recipe, parents=("sample",))
    ),
    "precisions is empty": replace(CARD, precisions=()),
    "precision 'fp8' is not one of float32, bfloat16, float16": replace(CARD, precisions=("fp8",)),
    "geometry.width has step 0, which is not at least 1": replace(
        CARD, geometry=replace(CARD.geometry, width=Axis(minimum=64, maximum=64, step=0))
    ),
    "geometry.frames allows no size from 1: 0 to 3": replace(
        CARD, geometry=replace(CARD.geometry, frames=Axis(minimum=0, maximum=3))
    ),
    "geometry.height allows no size from 1: multiples of 16 from 33 to 47": replace(
        CARD, geometry=replace(CARD.geometry, height=Axis(minimum=33, maximum=47, step=16))
    ),
    "defaults.width 65 is outside the card's own multiples of 16 from 32 to 128": with_defaults(width=65),
    "defaults.height 0 is outside the card's own multiples of 16 from 32 to 128": with_defaults(height=0),
    "defaults.frames 8 is outside the card's own 4k + 1 from 1 to 33": with_defaults(frames=8),
    "defaults.guidance nan is not a number from 0 to 1000": with_defaults(guidance=float("nan")),
    "defaults.shift 0 is not a number from 0.01 to 100": with_defaults(shift=0),
    "defaults.fps -1.0 is not a number from 0.1 to 1000": with_defaults(fps=-1.0),
    "defaults.guidance_mode 'embedded' is not offered by loop 'denoise'": with_defaults(
        guidance_mode="embedded"
    ),
    "defaults.solver 'sde' is not offered by loop 'denoise'": with_defaults(solver="sde"),
}


@pytest.mark.parametrize(("fault", "card"), BROKEN.items(), ids=list(BROKEN))
def test_each_fault_is_told(fault: str, card: ModelCard) -> None:
    assert fault in faults(card)


def test_the_faults_of_a_card_broken_in_every_way_come_together() -> None:
    broken = replace(
        CARD,
        loops=(),
        precisions=("fp8",),
        geometry=Geometry(width=Axis(minimum=1, maximum=2, step=-1), height=Axis(minimum=9, maximum=8)),
        recipe=Recipe(method="m", loop="x", steps=(0, 0), precision="y"),
    )
    assert len(faults(broken)) >= 7


def test_a_loop_that_has_its_own_solver_needs_no_default_for_it() -> None:
    with_defaults(with_loop(solvers=()), solver="whatever").validate()


def test_cards_are_described_and_resolved_without_torch() -> None:
    program = (
        "import sys, pkgutil, restrike.cards as cards\n"
        "for module in pkgutil.iter_modules(cards.__path__, 'restrike.cards.'): __import__(module.name)\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules, 'imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

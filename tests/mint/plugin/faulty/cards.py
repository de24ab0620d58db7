"""The cards: one a fault. Imports no torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from restrike.cards.card import (
    Axis,
    Component,
    Geometry,
    LoopSpec,
    ModelCard,
    Recipe,
    SamplingDefaults,
    Task,
)
from restrike.cards.checkpoint import Packaged
from restrike.cards.compile import Compile, CompileTarget, ShapeClass
from restrike.cards.deferred import Deferred

MODEL = "faulty.model"
INGRESS = ("latent", "text", "timestep")
TARGET = CompileTarget(component="denoiser", ingress=INGRESS, text="text")
ALONE = ShapeClass(width=2, height=2, guidance="none", text_tokens=3)
PAIR = replace(ALONE, guidance="batched")
DECLARED = Compile(targets=(TARGET,), shapes=(ALONE,), tolerance=1e-4)


def _denoiser(kind: str = "Denoiser", seed: int = 0, load: str = "") -> Component:
    loader = Deferred(f"{MODEL}:{load}") if load else Deferred(f"{MODEL}:load_denoiser", (kind, seed))
    return Component(name="denoiser", load=loader, files=("config.json",))


def _card(name: str, component: Component, declared: Compile | None = DECLARED, **changes: Any) -> ModelCard:
    sibling = Component(name="sibling", load=Deferred(f"{MODEL}:load_sibling"), files=("config.json",))
    card = ModelCard(
        name=name,
        description="a card with a fault",
        architecture="faulty",
        license="Apache-2.0",
        components=(component, sibling),
        loops=(
            LoopSpec(
                name="denoise",
                tasks=(Task.TEXT_TO_IMAGE,),
                components=("denoiser", "sibling"),
                build=Deferred(f"{MODEL}:build_loop"),
                solvers=("euler",),
                guidance=("none", "cfg", "batched"),
            ),
        ),
        defaults=SamplingDefaults(width=2, height=2, steps=2, guidance=2.0, guidance_mode="none"),
        geometry=Geometry(width=Axis(minimum=2, maximum=2), height=Axis(minimum=2, maximum=2)),
        recipe=Recipe(method="none", loop="denoise"),
        location=Packaged("faulty"),
        example="abc",
        compile=declared,
    )
    return replace(card, **changes)


def _kinds() -> dict[str, ModelCard]:
    """A card for each kind of denoiser, named after it."""
    kinds = (
        *("Raises", "Exhausts", "Hoards", "KilledWarm", "KilledTracing", "Draws", "DrawsTensors", "Branches"),
        *("MakesConstants", "Sleeps", "Works", "KilledProving", "Deviates", "LeavesEarly"),
    )
    return {kind.lower(): _card(kind.lower(), _denoiser(kind)) for kind in kinds}


CARDS: dict[str, ModelCard] = {
    **_kinds(),
    "plain": _card("plain", _denoiser()),
    # The same architecture with other weights.
    "twin": _card("twin", _denoiser(seed=1)),
    "undeclared": _card("undeclared", _denoiser(), None),
    "nodenoiser": _card(
        "nodenoiser", _denoiser(), replace(DECLARED, targets=(replace(TARGET, component="sibling"),))
    ),
    "nocomponent": _card(
        "nocomponent", _denoiser(), replace(DECLARED, targets=(replace(TARGET, component="unet"),))
    ),
    "opaque": _card("opaque", _denoiser(), loops=(replace(_card("", _denoiser()).loops[0], opaque=True),)),
    "othertext": _card("othertext", _denoiser(), replace(DECLARED, shapes=(replace(ALONE, text_tokens=4),))),
    "otheringress": _card(
        "otheringress", _denoiser(), replace(DECLARED, targets=(replace(TARGET, ingress=("latent", "text")),))
    ),
    "dropped": _card("dropped", _denoiser(), replace(DECLARED, options=(("no_such_option", True),))),
    "loaderfails": _card("loaderfails", _denoiser(load="load_badly")),
    "loaderdies": _card("loaderdies", _denoiser(load="load_and_die")),
    "oneshape": _card("oneshape", _denoiser("BranchesOnOneShape"), replace(DECLARED, shapes=(PAIR, ALONE))),
    "ranged": _card("ranged", _denoiser(), replace(DECLARED, shapes=(replace(ALONE, batch=(2, 6)),))),
    "fromone": _card("fromone", _denoiser(), replace(DECLARED, shapes=(replace(ALONE, batch=(1, 6)),))),
    "narrows": _card(
        "narrows", _denoiser("Narrows"), replace(DECLARED, shapes=(replace(ALONE, batch=(2, 6)),))
    ),
}


def __getattr__(name: str) -> ModelCard:
    try:
        return CARDS[name]
    except KeyError as error:
        raise AttributeError(name) from error

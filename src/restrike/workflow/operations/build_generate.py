"""Builds the operation of a `generate` step: finds its card, checks its arguments, fills in the defaults.

An argument that comes from another step is checked when it is known; all others now, each at its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restrike.cards.card import ModelCard
from restrike.cards.request import Arguments, Examined, Request, examine
from restrike.cards.request_faults import COUNT_LIMIT, Fault
from restrike.errors import Refused, RestrikeError
from restrike.workflow.findings import no_such, shown
from restrike.workflow.operations.adapter_list import adapters_of
from restrike.workflow.operations.generate import ADAPTERS, ARGUMENTS, Generate
from restrike.workflow.operations.site import Built, Site
from restrike.workflow.outcomes import Yield
from restrike.workflow.resolving import has_leaves
from restrike.workflow.values import CLIP_FIELDS

CALL, COUNT, EXACT, IMAGE, ITEMS, PROMPT = "call", "count", "exact", "image", "items", "prompt"
_SAID_ONLY = (COUNT, ADAPTERS, ITEMS, EXACT)
"""What is no argument of a key unless it is said: a key of pictures 0 to n is the same without them."""


def build_generate(name: str, given: Mapping[str, Any], site: Site) -> Built | None:
    """The operation of a card with its arguments; None, with findings, when there is no such card."""
    barred = site.barred(name)
    if barred:
        site.findings.add(site.at("generate"), barred)
        return None
    try:
        card = site.card(name)
        if card.location is None:
            raise Refused(f"card '{name}' needs weights: name a checkpoint folder or a hub id instead")
        precision = card.precision(site.precision)
    except RestrikeError as error:
        site.findings.add(site.at("generate"), error.message)
        return None
    offered = (*ARGUMENTS, CALL) if card.takes_call_arguments else ARGUMENTS
    known = _known(given, offered, site)
    stack = adapters_of(known.pop(ADAPTERS, None), site)
    _check_said_now(known, given, site)
    later = {argument: value for argument, value in known.items() if has_leaves(value)}
    now = {a: value for a, value in known.items() if a not in later and value is not None}
    if stack:
        now[ADAPTERS] = stack
    if PROMPT not in now and PROMPT not in later and not card.takes_call_arguments:
        site.findings.add(site.argument(PROMPT, given), "prompt is missing; say what to make")
    if ITEMS in now and COUNT in known:
        site.findings.add(site.argument(ITEMS, given), "stands beside count; say one of them")
    count = _count(now.pop(COUNT, 1), site)
    examined = _examined(card, now, later, site)
    arguments = dict(known)
    if examined.arguments is not None:
        arguments = {a: _value(a, examined.arguments, now, later) for a in offered if a not in _SAID_ONLY}
        count = len(examined.arguments.items) if ITEMS in now else count
        arguments |= _said(examined.arguments)
    arguments[COUNT] = later.get(COUNT, count)
    items = None if COUNT in later else count if count > 1 else 0
    return Built(
        operation=Generate(
            card=card,
            device=site.device,
            precision=precision,
            adapters=stack,
            weights_now=site.weights_now,
            cells_now=site.cells_now,
        ),
        arguments=arguments,
        gives=Yield(fields=CLIP_FIELDS, items=items),
    )


def _known(given: Mapping[str, Any], offered: tuple[str, ...], site: Site) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for name, value in given.items():
        place = site.argument(name, given)
        if name == "seed":
            site.findings.add(place, "the seed of a step stands beside its arguments: seed: 3")
        elif name not in offered:
            site.findings.add(place, no_such("argument", name, offered))
        elif name == IMAGE and value is not None and not has_leaves(value):
            site.findings.add(place, f"{shown(value)} is no picture; write $asset.PATH or $step.NAME")
        else:
            known[name] = value
    return known


def _check_said_now(known: dict[str, Any], given: Mapping[str, Any], site: Site) -> None:
    """What decides how much is made, and how, is no result of a step."""
    for name in (ITEMS, EXACT):
        if has_leaves(known.get(name)):
            place = site.argument(name, given)
            site.findings.add(place, "is needed before anything runs; it cannot be a step's result")
            del known[name]


def _said(asked: Arguments) -> dict[str, Any]:
    """Which pictures, when they are not the first ones, and whether nothing may be near its reference."""
    others = asked.items != tuple(range(len(asked.items)))
    return ({ITEMS: list(asked.items)} if others else {}) | ({EXACT: True} if asked.exact else {})


def _count(value: Any, site: Site) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= COUNT_LIMIT:
        return value
    site.findings.add(
        site.at("arguments", COUNT), f"count {shown(value)} is not a whole number from 1 to {COUNT_LIMIT}"
    )
    return 1


def _examined(card: ModelCard, now: dict[str, Any], later: Mapping[str, Any], site: Site) -> Examined:
    """The constants held against the card; what comes later stands aside, or as something of its kind."""
    stand_ins: dict[str, Any] = {PROMPT: "" if card.takes_call_arguments else card.example or "a picture"}
    if IMAGE in later:
        import numpy as np

        stand_ins[IMAGE] = np.zeros((1, 1, 3), np.uint8)
    examined = examine(card, Request(**(stand_ins | now)))
    _note(examined.faults, now, later, site)
    if examined.arguments is None:
        # Values of a wrong kind hide all else: look again without them.
        for fault in examined.faults:
            now.pop(fault.argument, None)
        examined = examine(card, Request(**(stand_ins | now)))
        _note(examined.faults, now, later, site)
    if not set(later) - {IMAGE, PROMPT}:
        _note(examined.contradictions, now, later, site)
    return examined


def _note(faults: tuple[Fault, ...], now: Mapping[str, Any], later: Mapping[str, Any], site: Site) -> None:
    for fault in faults:
        if fault.argument not in later:
            site.findings.add(site.argument(fault.argument, now), fault.message)


def _value(name: str, asked: Arguments, now: Mapping[str, Any], later: Mapping[str, Any]) -> Any:
    """An argument as it decides the key: what is left to a default is that default."""
    if name in later:
        return later[name]
    if name == "guidance_2" and name not in now and "guidance" in later:
        return later["guidance"]
    if name in asked.left_open or name == IMAGE or (name == "steps" and "sigmas" in later):
        return None
    value = getattr(asked, name)
    return list(value) if isinstance(value, tuple) else value

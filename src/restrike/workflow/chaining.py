"""Expands a step with segments: one action each, fed from the one before, and one that joins them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restrike.keys.unkeyable import dotted
from restrike.workflow.definition import SegmentsSpec
from restrike.workflow.elision import Draft
from restrike.workflow.findings import Findings, shown
from restrike.workflow.graph import Input
from restrike.workflow.making import Making
from restrike.workflow.operations.site import Built
from restrike.workflow.operations.task import TaskCall
from restrike.workflow.outcomes import NOTHING, One, Outcome, Unknown, Yield
from restrike.workflow.seeds import derived
from restrike.workflow.segments import JOIN, LAST_FRAME, fed
from restrike.workflow.values import CLIP_FIELDS

MAX_SEGMENTS = 1000


def chain(making: Making, spec: SegmentsSpec, arguments: Mapping[str, Any]) -> Outcome:
    """Add the actions of a chain; the step's value is the joined clip."""
    site = making.site
    overlap = int(LAST_FRAME in spec.feed.values()) if spec.overlap is None else spec.overlap
    count = _whole(making, spec.count, "count", 1)
    overlap = _whole(making, overlap, "overlap", 0)
    inputs: list[Input] = []
    for number in range(count):
        built = _segment(making, spec, arguments, inputs[-1].action if inputs else None)
        if built is None:
            return Unknown()
        if built.gives.items not in (0, None):
            site.findings.add(site.at("segments"), f"a segment is one clip, not {built.gives.items}")
        # The first is the clip that the step would give without segments.
        seed = derived(making.seed, f"segment {number}") if number else making.seed
        action = making.action(f"{site.id}[{number}]", built, seed)
        site.shared.add(Draft(action=action, saves=False, items=built.gives.items))
        inputs.append(Input(action=action.id))
    joined = Built(
        operation=TaskCall(task=JOIN, device=site.shared.machine.device),
        arguments={"clips": inputs, "overlap": overlap},
        gives=Yield(fields=CLIP_FIELDS, items=0),
    )
    site.shared.add(Draft(action=making.action(site.id, joined, 0), saves=making.saves, items=0))
    return One(action=site.id, gives=joined.gives)


def _segment(
    making: Making, spec: SegmentsSpec, arguments: Mapping[str, Any], before: str | None
) -> Built | None:
    site = making.site
    if before is None:
        return making.build(arguments, site.findings)
    found = Findings()
    built = making.build(fed(arguments, spec.feed, before), found)
    # What is fed was not written under `arguments`, so its findings do not belong there.
    feeds = {dotted(site.at("arguments", name)): site.at("segments", "feed", name) for name in spec.feed}
    for finding in found.found:
        if finding.path in feeds:
            site.findings.add(feeds[finding.path], finding.message)
        else:
            site.findings.found.append(finding)
    return built


def _whole(making: Making, written: int | str, name: str, least: int) -> int:
    site = making.site
    place = site.at("segments", name)
    value = site.resolver.constant(written, place)
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_SEGMENTS:
        return value
    if value is not NOTHING:
        site.findings.add(place, f"{shown(value)} is not an integer from {least} to {MAX_SEGMENTS}")
    return 1

"""What a run's manifest keeps of how its generations were executed, and what is explained of it."""

from __future__ import annotations

import json

from restrike.engine.capture.counters import CaptureReport
from restrike.engine.compiled.counters import CompiledReport
from restrike.engine.counts import Executed
from restrike.engine.engine import Engine
from restrike.workflow.explain import described
from restrike.workflow.runs import MANIFEST

from .lab import CountedEngine, Lab, digit, resized, steps

FLOW = steps(base=digit(), big=resized("$step.base"))


def test_a_computed_generation_says_how_and_a_reused_one_leaves_it_to_the_run_that_computed_it(
    lab: Lab,
) -> None:
    first, again = lab.run(FLOW), lab.run(FLOW)
    made, sized = lab.session.explain(first.run)
    ran = made.record.executed
    assert ran is not None
    total = ran.capture.eager_breaks["no backend that pays on cpu"]
    line = f"capture answered 0 of {total} steps; eager: no backend that pays on cpu ({total})"
    assert made.how == (line,)
    assert (sized.record.executed, sized.how) == (None, ())
    assert all(step.how == () for step in lab.session.explain(again.run))
    assert described(made)["how"] == list(made.how)


def test_steps_that_graphs_answered_are_counted(lab: Lab) -> None:
    taped = Lab(lab.root, CountedEngine(Engine(device="cpu", capture="tape")))
    manifest = taped.run(FLOW, reuse=False)
    (line,) = taped.session.explain(manifest.run)[0].how
    assert line.startswith("capture tape answered ")
    assert "warming (1), proving (" in line


def test_a_manifest_of_before_is_read_as_well(lab: Lab) -> None:
    manifest = lab.run(FLOW)
    path = lab.folder(manifest) / MANIFEST
    tree = json.loads(path.read_text())
    for step in tree["steps"]:
        del step["executed"]
    path.write_text(json.dumps(tree))
    assert [step.how for step in lab.session.explain(manifest.run)] == [(), ()]


def test_lines_are_told_of_what_had_something_to_answer() -> None:
    off = CaptureReport(backend=None, replays=0, eager_breaks={}, graphs=0, graph_bytes=0)
    assert Executed(capture=off, compiled=CompiledReport()).told == ()
    taped = CaptureReport(backend="tape", replays=5, eager_breaks={"warming": 1}, graphs=1, graph_bytes=8)
    compiled = CompiledReport(cells={"f" * 64: 10}, eager={"gradients are on": 2})
    assert Executed(capture=taped, compiled=compiled).told == (
        "cells answered 10 of 12 forwards (ffffffffffff 10); eager: gradients are on (2)",
        "capture tape answered 5 of 6 steps; eager: warming (1)",
    )

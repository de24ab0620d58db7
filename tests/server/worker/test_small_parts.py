"""What a worker is started with, how its memory is judged, and how its failures are written down."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from restrike.errors import RULES, Crashed, NotFound, Refused, RestrikeError, Shortfall
from restrike.server.jobs.model import JobState
from restrike.server.worker.ending import class_of, failed
from restrike.server.worker.lines import DRAIN, LOOK, STOP, Nudges, Orders
from restrike.server.worker.memory import Growth, rss_bytes
from restrike.server.worker.options import WorkerOptions, parsed

MIB = 1 << 20


@pytest.mark.parametrize("precision", [None, "float32"])
def test_options_survive_the_command_line(precision: str | None) -> None:
    options = WorkerOptions(
        name="cpu-0-ab",
        database="sqlite:////data folder/x.sqlite",
        data=Path("/data folder"),
        device="cpu:0",
        torch_device="cpu",
        server="host 1 2 3",
        share=2,
        precision=precision,
        mint="background",
        allow_code=(Path("a.py"), Path("b c.py")),
    )

    assert parsed(options.words()) == options


def test_growth_is_what_weights_do_not_explain_after_the_first_jobs() -> None:
    growth = Growth(100 * MIB)
    assert not any(growth.exceeded(size * MIB, 0) for size in (300, 700, 500))

    assert not growth.exceeded(790 * MIB, 0)
    assert not growth.exceeded(2000 * MIB, 1300 * MIB)
    assert growth.exceeded(801 * MIB, 0)


def test_the_resident_bytes_are_told_where_the_system_does(tmp_path: Path) -> None:
    assert rss_bytes() > 10 * MIB
    assert rss_bytes(tmp_path / "none") == 0


def test_orders_are_kept_and_wake() -> None:
    orders = Orders()
    orders.give(LOOK)
    assert (orders.draining.is_set(), orders.stopping.is_set()) == (False, False)
    orders.give(DRAIN)
    assert (orders.draining.is_set(), orders.stopping.is_set()) == (True, False)
    orders.give(LOOK + STOP)
    assert orders.stopping.is_set()
    assert orders.look.is_set()
    assert orders.check.is_set()


def test_nudges_never_wait_for_a_server_that_does_not_read() -> None:
    reading, writing = os.pipe()
    nudges = Nudges(writing)
    done = threading.Event()

    def many() -> None:
        for _ in range(100_000):
            nudges.give()
        done.set()

    threading.Thread(target=many, daemon=True).start()
    assert done.wait(20.0)
    os.close(reading)
    nudges.give()
    os.close(writing)


@pytest.mark.parametrize("kind", list(RULES))
def test_every_class_of_failure_has_a_remedy(kind: type[RestrikeError]) -> None:
    outcome = failed(kind("why"), "step", {})

    assert outcome.state is JobState.FAILED
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.step) == (kind.__name__, "step")
    assert outcome.failure.remedy


def test_a_failure_is_named_by_its_nearest_class() -> None:
    class Own(Shortfall):
        """A kind of shortfall."""

    assert class_of(Own()) == "Shortfall"
    assert class_of(NotFound("x")) == "NotFound"
    assert class_of(RestrikeError("x")) == "Crashed"
    assert class_of(Refused("x")) != class_of(Crashed("x"))

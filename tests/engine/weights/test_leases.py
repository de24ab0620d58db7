"""Leases: equals share, others wait, a writer has the card for itself, and nobody is locked out for ever."""

from __future__ import annotations

import threading

import pytest

from restrike.cards.identity import AdapterIdentity
from restrike.engine.weights.leases import Leases
from restrike.errors import Refused

A, B = ((AdapterIdentity(digest=digit * 64, strength=1.0),) for digit in "ab")


def test_equal_stacks_share_and_others_wait_for_the_last_one() -> None:
    leases = Leases("digits")
    first, second = leases.share(A), leases.share(A)
    assert first is not None
    assert second is not None
    assert leases.share(B) is None
    assert leases.share(()) is None
    assert leases.waiting_for() == "the requests with 1 adapter(s) on card 'digits'"
    first()
    assert leases.share(B) is None
    second()
    assert leases.share(B) is not None


def written(leases: Leases, log: list[str], name: str = "sync") -> threading.Thread:
    def write() -> None:
        with leases.drained(name):
            log.append(f"{name} begins")
            log.append(f"{name} ends")

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def until_waiting(leases: Leases) -> None:
    while "sync" not in leases.waiting_for():
        pass


def test_a_writer_waits_for_readers_and_keeps_out_new_ones() -> None:
    leases, log = Leases("digits"), list[str]()
    leave = leases.share(())
    assert leave is not None
    thread = written(leases, log)
    until_waiting(leases)
    assert leases.share(()) is None
    assert log == []
    leave()
    thread.join(20)
    assert log == ["sync begins", "sync ends"]
    assert leases.share(()) is not None


def test_writers_do_not_overlap() -> None:
    leases, log = Leases("digits"), list[str]()
    leave = leases.share(())
    assert leave is not None
    threads = [written(leases, log, f"{number}") for number in range(4)]
    until_waiting(leases)
    leave()
    for thread in threads:
        thread.join(20)
    begun = log[::2]
    assert log == [line for name in begun for line in (name, name.replace("begins", "ends"))]
    assert len(begun) == 4


def test_a_writer_that_fails_lets_the_others_in() -> None:
    leases = Leases("digits")
    with pytest.raises(ValueError, match="no"), leases.drained("sync"):
        raise ValueError("no")
    assert leases.share(A) is not None


def test_a_thread_that_reads_does_not_wait_for_itself() -> None:
    leases = Leases("digits")
    leave = leases.share(())
    assert leave is not None
    with pytest.raises(Refused, match="this same thread drives"), leases.drained("sync"):
        pass
    assert leases.share(()) is not None, "the refused one keeps nobody out"

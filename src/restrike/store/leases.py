"""Leases: a name held by one process at a time, until it lets go, dies or stops renewing.

A lease decides who works, never what a result is; losing one costs work twice and corrupts nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import delete, insert, select, update

from restrike.errors import RestrikeError
from restrike.store.owner import Owner
from restrike.store.schema import Database, leases

LEASE_S = 30.0
_RENEW_S = LEASE_S / 4
_POLL_S = 0.02
_POLL_LIMIT_S = 0.5


class Leases:
    """The leases of one store."""

    def __init__(self, database: Database, *, lease_s: float = LEASE_S) -> None:
        self._database = database
        self._lease_s = lease_s

    def take(self, name: str, owner: Owner) -> bool:
        """Take a free, expired or orphaned name; False while another holds it."""
        now = time.time()
        with self._database.write() as connection:
            row = connection.execute(select(leases).where(leases.c.name == name)).one_or_none()
            if row is not None and row.expires > now and not Owner.parse(row.owner).is_dead():
                return row.owner == str(owner)
            connection.execute(delete(leases).where(leases.c.name == name))
            connection.execute(
                insert(leases).values(name=name, owner=str(owner), expires=now + self._lease_s)
            )
        return True

    def renew(self, name: str, owner: Owner) -> bool:
        """Hold a name for another while; False when it was lost."""
        with self._database.write() as connection:
            renewed = connection.execute(
                update(leases)
                .where(leases.c.name == name, leases.c.owner == str(owner))
                .values(expires=time.time() + self._lease_s)
            )
        return renewed.rowcount == 1

    def release(self, name: str, owner: Owner) -> None:
        """Let a name go."""
        with self._database.write() as connection:
            connection.execute(delete(leases).where(leases.c.name == name, leases.c.owner == str(owner)))

    def drop_dead(self) -> int:
        """Remove the leases of processes that are gone, with what they held; returns how many."""
        now = time.time()
        with self._database.write() as connection:
            rows = connection.execute(select(leases)).all()
            dead = [row.name for row in rows if row.expires <= now or Owner.parse(row.owner).is_dead()]
            connection.execute(delete(leases).where(leases.c.name.in_(dead)))
        return len(dead)

    @contextmanager
    def kept(self, name: str, owner: Owner) -> Iterator[None]:
        """Renew a lease that was taken, from a thread, until the block ends; then let it go."""
        stop = threading.Event()
        every = min(_RENEW_S, self._lease_s / 4)

        def renew() -> None:
            while not stop.wait(every):
                # One renewal that fails is made good by the next; three in a row lose the lease, harmlessly.
                with suppress(RestrikeError):
                    if not self.renew(name, owner):
                        self.take(name, owner)

        thread = threading.Thread(target=renew, name=f"lease {name[:40]}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            with suppress(RestrikeError):
                self.release(name, owner)

    def wait(self, name: str, owner: Owner, done: Callable[[], bool], check: Callable[[], None]) -> bool:
        """Wait for another's work: True when this owner has the lease, False when the work is done.

        `check` is called between looks and may raise to stop waiting.
        """
        pause_s = _POLL_S
        while True:
            check()
            if done():
                return False
            if self.take(name, owner):
                return True
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _POLL_LIMIT_S)

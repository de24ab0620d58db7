"""Wishes that a worker let go of what it has loaded, and its answers. A worker that runs a job gets none.

They are kept beside the switches: while one waits, its worker is given no job.
"""

from __future__ import annotations

import secrets

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from restrike.errors import Conflict
from restrike.server.database.connect import Database
from restrike.server.database.schema import jobs, switches, workers
from restrike.server.jobs.model import JobState

_WISH = "clear"
_ASKED = "asked"


class Clearing:
    """The wishes of one database; any number of processes may use it at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(self, worker: str) -> str:
        """Ask a worker to clear its memory; returns the name of the wish.

        Raises:
            Conflict: it runs a job.
        """
        name = f"{_wishes(worker)}{secrets.token_hex(4)}"
        with self._database.write() as connection:
            running = select(jobs.c.id, jobs.c.device).where(
                jobs.c.state == JobState.RUNNING, jobs.c.worker == worker
            )
            job = connection.execute(running).first()
            if job is not None:
                raise Conflict(f"{job.device} runs job '{job.id}'; wait for it, or cancel it, and clear then")
            _forget_the_gone(connection)
            connection.execute(insert(switches).values(name=name, value=_ASKED))
        return name

    def is_asked(self, connection: Connection, worker: str) -> bool:
        """Whether a wish waits for a worker."""
        wish = _of(worker), switches.c.value == _ASKED
        return connection.execute(select(switches.c.name).where(*wish).limit(1)).first() is not None

    def waits(self, worker: str) -> bool:
        """The same, in a look of its own."""
        with self._database.read() as connection:
            return self.is_asked(connection, worker)

    def done(self, worker: str, freed_bytes: int) -> None:
        """Answer all wishes that wait for a worker."""
        with self._database.write() as connection:
            asked = _of(worker), switches.c.value == _ASKED
            connection.execute(update(switches).where(*asked).values(value=str(freed_bytes)))

    def answer(self, name: str) -> int | None:
        """The bytes that a wish has freed; None while it waits."""
        with self._database.read() as connection:
            value = connection.execute(select(switches.c.value).where(switches.c.name == name)).scalar()
        return None if value in (None, _ASKED) else int(value)

    def withdraw(self, name: str) -> None:
        """Forget a wish, answered or not."""
        with self._database.write() as connection:
            connection.execute(delete(switches).where(switches.c.name == name))


def _wishes(worker: str) -> str:
    return f"{_WISH} {worker} "


def _of(worker: str) -> ColumnElement[bool]:
    return switches.c.name.startswith(_wishes(worker), autoescape=True)


def _forget_the_gone(connection: Connection) -> None:
    """Wishes of workers that are gone are nobody's."""
    known = {f"{_WISH} {name}" for name in connection.execute(select(workers.c.id)).scalars()}
    wishes = connection.execute(
        select(switches.c.name).where(switches.c.name.startswith(f"{_WISH} ", autoescape=True))
    ).scalars()
    gone = [name for name in wishes if name.rpartition(" ")[0] not in known]
    connection.execute(delete(switches).where(switches.c.name.in_(gone)))

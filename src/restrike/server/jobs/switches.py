"""What an operator turns on and off for a whole queue: pausing and draining. Changes no job."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from restrike.server.database.connect import Database
from restrike.server.database.schema import switches


class Switches:
    """Paused: nothing new is started. Draining: nothing new is accepted. Both survive a restart."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def is_paused(self, connection: Connection) -> bool:
        """Whether waiting jobs stay where they are."""
        return _is_on(connection, "paused")

    def is_draining(self, connection: Connection) -> bool:
        """Whether submissions are refused."""
        return _is_on(connection, "draining")

    def states(self) -> dict[str, bool]:
        """All switches by name."""
        with self._database.read() as connection:
            return {name: _is_on(connection, name) for name in ("paused", "draining")}

    def set_paused(self, on: bool) -> None:
        """Pause or resume; pausing marks nothing as running and stops nothing that runs."""
        self._set("paused", on)

    def set_draining(self, on: bool) -> None:
        """Drain: what was accepted is finished, and nothing else is accepted."""
        self._set("draining", on)

    def _set(self, name: str, on: bool) -> None:
        with self._database.write() as connection:
            connection.execute(delete(switches).where(switches.c.name == name))
            if on:
                connection.execute(insert(switches).values(name=name, value="on"))


def _is_on(connection: Connection, name: str) -> bool:
    row = connection.execute(select(switches.c.value).where(switches.c.name == name)).one_or_none()
    return row is not None and row.value == "on"

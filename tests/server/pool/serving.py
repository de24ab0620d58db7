"""A server that does nothing but have workers: `python -m tests.server.pool.serving DATA DEVICES`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from restrike.server.database.connect import Database
from restrike.server.devices import slots_of
from restrike.server.place import Place
from restrike.server.pool import Pool, PoolOptions
from server.pool.house import PERILS


def main(data: str, devices: str) -> None:
    """Serve until killed."""
    place = Place(folder=Path(data))
    place.make()
    Database(place.database_url).migrate()
    Pool(place, slots_of(devices), PoolOptions(allow_code=(PERILS,), preview_every=2)).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Puts a server together: its data folder, database, workers and application. `restrike serve` runs it."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio
import anyio.to_thread
import uvicorn
from anyio.from_thread import BlockingPortal
from fastapi import FastAPI

from restrike.errors import RestrikeError
from restrike.server.app import create_app
from restrike.server.connections import TimedHeads
from restrike.server.database.connect import Database
from restrike.server.devices import Slot
from restrike.server.endpoints.catalogue import Catalogue
from restrike.server.jobs.queue import Queue
from restrike.server.jobs.switches import Switches
from restrike.server.place import DEFAULT_WORKSPACE, Place
from restrike.server.pool import Pool, PoolOptions, Seat
from restrike.server.readiness import Readiness
from restrike.server.security.access import Access
from restrike.server.security.limits import Limits
from restrike.server.service import Planning, Service
from restrike.server.workers import Workers

PORT = 8420
_TIDY_S = 600.0
_STOP_S = 30.0
_CONNECTIONS = 1000
_HEADERS_BYTES = 64 << 10
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Hosting:
    """What a server is made of. Of ended jobs the newest `keep_jobs` are kept, each with its last events.

    `workspaces` are made if they are not there. With `drain`, jobs that run come to their end when the server
    is stopped; else they stop at their next step, and go on with the next start.
    """

    place: Place
    slots: tuple[Slot, ...]
    pool: PoolOptions = field(default_factory=PoolOptions)
    catalogue: Catalogue = field(default_factory=Catalogue)
    access: Access = field(default_factory=Access)
    limits: Limits = field(default_factory=Limits)
    workspaces: tuple[str, ...] = ()
    drain: bool = False
    keep_jobs: int = 10_000
    keep_events: int = 500


def host(chosen: Hosting) -> FastAPI:
    """The application of a server with its workers; they start and end with it.

    Raises:
        Refused, NotFound: the data folder, the database or a file of tasks cannot be used, or others could
            come in without a token.
    """
    place = chosen.place
    place.make()
    for name in chosen.workspaces:
        place.workspace(name).mkdir(parents=True, exist_ok=True)
    database = Database(place.database_url)
    database.migrate()
    pools: list[Pool] = []

    def wake() -> None:
        for pool in pools:
            pool.look()

    def seats() -> tuple[Seat, ...]:
        return tuple(seat for pool in pools for seat in pool.seats())

    readiness = Readiness(Queue(database), Switches(database), Workers(database), seats)

    service = Service(
        place=place,
        database=database,
        planning=_planning(chosen),
        catalogue=chosen.catalogue,
        limits=chosen.limits,
        waking=wake,
        not_ready=readiness.why,
    )
    chosen.access.check(service.tokens)
    service.session(DEFAULT_WORKSPACE, trusted=True)  # what workers are given is sound, or refused now

    @asynccontextmanager
    async def workers(app: FastAPI) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks, _working(chosen, service) as pool:
            pools.append(pool)
            tasks.start_soon(readiness.prove)
            tasks.start_soon(_tidy, service, chosen)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                pools.remove(pool)

    return create_app(service, chosen.access, (workers,))


def _planning(chosen: Hosting) -> Planning:
    """What the workers are given, for plans."""
    given = chosen.pool
    return Planning(
        device=chosen.slots[0].torch_device,
        precision=given.precision,
        cells=given.cells,
        mint=given.mint,
        allow_code=given.allow_code,
    )


@asynccontextmanager
async def _working(chosen: Hosting, service: Service) -> AsyncIterator[Pool]:
    """The workers, for a block; what they write nudges those who wait for events."""
    async with BlockingPortal() as portal:

        def happened() -> None:
            portal.start_task_soon(service.news.nudge)

        options = replace(chosen.pool, endpoints=chosen.catalogue.origins)
        pool = Pool(chosen.place, chosen.slots, options, happened)
        await anyio.to_thread.run_sync(pool.start)
        try:
            yield pool
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_stop, pool, chosen.drain)


def _stop(pool: Pool, drain: bool) -> None:
    pool.stop(drain=drain, timeout_s=threading.TIMEOUT_MAX if drain else _STOP_S)


async def _tidy(service: Service, chosen: Hosting) -> None:
    """Forget the oldest of what has ended, now and then."""
    while True:
        try:
            await anyio.to_thread.run_sync(
                lambda: service.history.forget(keep=chosen.keep_jobs, kept_events=chosen.keep_events)
            )
        except RestrikeError as error:
            _log.warning("old jobs stay: %s", error)
        await anyio.sleep(_TIDY_S)


def listening(app: FastAPI, *, host: str = "127.0.0.1", port: int = PORT) -> uvicorn.Config:
    """How uvicorn serves it: nothing of a proxy is believed, and no more connections than it can bear."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=TimedHeads,
        ws="none",
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_level="warning",
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=_HEADERS_BYTES,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,
    )

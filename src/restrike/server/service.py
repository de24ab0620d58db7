"""What all interfaces of one server work with: its queue, its places, its sessions. It serves no protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import anyio

from restrike.errors import Crashed, NotFound
from restrike.server.database.connect import Database
from restrike.server.endpoints.catalogue import Catalogue
from restrike.server.jobs.clearing import Clearing
from restrike.server.jobs.history import History
from restrike.server.jobs.measured import Measured
from restrike.server.jobs.queue import Queue
from restrike.server.jobs.switches import Switches
from restrike.server.place import Place
from restrike.server.security.fetching import Fetcher
from restrike.server.security.limits import Limits
from restrike.server.security.redaction import Redaction
from restrike.server.security.tokens import Tokens
from restrike.server.security.trust import barred_trusted, barred_untrusted
from restrike.server.streaming import News
from restrike.server.workers import Workers
from restrike.store.store import Store
from restrike.workflow.api import open_session
from restrike.workflow.session import Session

_HEAVY = 4
"""Plans that are made at once; what waits behind them holds no thread."""
_FETCHES = 4


@dataclass(frozen=True, kw_only=True)
class Planning:
    """What plans are made for: the machine of the workers, as `workflow.open_session` takes it."""

    device: str = "cpu"
    precision: str | None = None
    cells: str | None = None
    mint: str | None = None
    allow_code: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Service:
    """One server. `waking` lets the workers look at the queue now; `not_ready` says why it is not ready."""

    place: Place
    database: Database
    planning: Planning = field(default_factory=Planning)
    catalogue: Catalogue = field(default_factory=Catalogue)
    limits: Limits = field(default_factory=Limits)
    fetcher: Fetcher = field(default_factory=Fetcher)
    waking: Callable[[], None] = lambda: None
    not_ready: Callable[[], str | None] = lambda: None

    @cached_property
    def queue(self) -> Queue:
        """The jobs."""
        return Queue(self.database)

    @cached_property
    def history(self) -> History:
        """The jobs and events, looked at."""
        return History(self.database)

    @cached_property
    def switches(self) -> Switches:
        """Pausing and draining."""
        return Switches(self.database)

    @cached_property
    def measured(self) -> Measured:
        """What jobs that ended took."""
        return Measured(self.database)

    @cached_property
    def clearing(self) -> Clearing:
        """Wishes that workers clear their memory."""
        return Clearing(self.database)

    @cached_property
    def workers(self) -> Workers:
        """Who works."""
        return Workers(self.database)

    @cached_property
    def tokens(self) -> Tokens:
        """Who may ask."""
        return Tokens(self.database)

    @cached_property
    def news(self) -> News:
        """Tells that there are new events."""
        return News(self.history)

    @cached_property
    def heavy(self) -> anyio.CapacityLimiter:
        """Bounds what computes in threads of this process."""
        return anyio.CapacityLimiter(_HEAVY)

    @cached_property
    def fetching(self) -> anyio.CapacityLimiter:
        """Bounds what is fetched at once, apart from `heavy`: a slow site keeps no plan waiting."""
        return anyio.CapacityLimiter(_FETCHES)

    @cached_property
    def _session(self) -> Session:
        chosen = self.planning
        found = open_session(
            self.place.folder,
            device=chosen.device,
            precision=chosen.precision,
            allow_code=chosen.allow_code,
            cells=chosen.cells,
            mint=chosen.mint,
        )
        return replace(found, make_engine=_no_engine)

    def session(self, workspace: str, *, trusted: bool) -> Session:
        """The session of a workspace, for plans; its requests name models as `trusted` allows.

        Raises:
            NotFound: there is no such workspace.
        """
        barred = barred_trusted if trusted else barred_untrusted
        found = self._session
        return replace(
            found, workspace=self.workspace(workspace), machine=replace(found.machine, barred=barred)
        )

    def workspace(self, name: str) -> Path:
        """The folder of a workspace; raises NotFound or Refused."""
        folder = self.place.workspace(name)
        if not folder.is_dir():
            raise NotFound(f"no workspace '{name}'; make it first: PUT /api/workspaces/{name}")
        return folder

    @cached_property
    def store(self) -> Store:
        """The store of all step results."""
        return self._session.store

    @cached_property
    def redaction(self) -> Redaction:
        """Takes this server's folders out of what is answered."""
        return Redaction(
            {
                "data": self.place.folder,
                **{f"workspace {path.name}": path for path in self.place.workspaces.glob("*")},
                "store": self.store.root,
            }
        )

    def shown(self, tree: Any) -> Any:
        """Plain values as an answer may have them."""
        return self.redaction.shown(tree)


def _no_engine() -> Any:
    raise Crashed("a server computes nothing itself; its workers do")

"""Runs the handlers of one endpoint: slots filled, the machine checked, each payload a request of its own.

Requests share the models of an engine and nothing else; any number of them may run on threads side by side.
"""

from __future__ import annotations

import secrets
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.cards.request_faults import SEED_LIMIT
from restrike.endpoints import resources
from restrike.endpoints.context import Context
from restrike.endpoints.declaration import Endpoint, Handler
from restrike.endpoints.payloads import payload_type, plain_answer
from restrike.endpoints.saving import Files, Saved, write_clip
from restrike.endpoints.slots import Cards, SlotModel
from restrike.errors import Crashed, Refused, RestrikeError, Unknown, typed

if TYPE_CHECKING:
    from restrike.engine.engine import Engine
    from restrike.engine.requests import Cancellation
    from restrike.engine.result import Generation
    from restrike.media import Provenance


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of a payload: what the handler returned as plain values, its files, and what it noticed."""

    endpoint: str
    handler: str
    value: Any
    seed: int
    files: tuple[Saved, ...]
    notices: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How a payload is to be served: which handler, None for the only one; its seed, None to draw one.

    `folder` is where its files go, and `told` says of each where that is. `watch` is shown `Progressed` and
    the engine's events as they happen, with a preview after every `preview_every`-th step (0: none).
    """

    handler: str | None = None
    seed: int | None = None
    folder: Path | None = None
    told: Callable[[Path], str] = str
    cancellation: Cancellation | None = None
    preview_every: int = 0
    watch: Callable[[object], None] = field(default=lambda event: None)


class Serving:
    """An endpoint with a model in each slot, on one engine.

    Raises:
        MissingResource: this machine lacks what it needs.
    """

    def __init__(self, endpoint: Endpoint, cards: Cards, engine: Engine) -> None:
        resources.require(endpoint)
        self.endpoint, self.cards, self.engine = endpoint, cards, engine
        self._lock = threading.Lock()
        self._instance: Any = None

    def call(self, payload: object, asked: Asked | None = None) -> Answer:
        """Serve a payload, given as plain values or as an object of the payload's own type.

        Raises:
            InvalidPayload: it does not fit; the handler was not entered.
            Cancelled: it was cancelled.
            Crashed: the handler raised what is none of `restrike.errors`.
            RestrikeError: what the handler, or a model, raised.
        """
        asked = asked or Asked()
        handler = handler_of(self.endpoint, asked.handler)
        read = payload_type(handler).read(payload)
        began = time.perf_counter()
        with told(self.endpoint, handler), closing(_Request(self, handler, read, asked)) as request:
            value = plain_answer(bound(handler, self._ready(handler))(request.context, read))
            request.context.check()
        return Answer(
            endpoint=self.endpoint.name,
            handler=handler.name,
            value=value,
            seed=request.context.seed,
            files=tuple(request.files.saved),
            notices=tuple(request.context.notices),
            seconds=time.perf_counter() - began,
        )

    def close(self) -> None:
        """Let a class shut down; a later payload sets it up again."""
        with self._lock:
            instance, self._instance = self._instance, None
        if hasattr(instance, "shutdown"):
            instance.shutdown()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ready(self, handler: Handler) -> Any:
        with self._lock:
            if self._instance is None:
                # A request of its own: another one's cancellation, seed and folder are nothing to the class.
                with closing(_Request(self, handler, None, Asked(seed=0))) as request:
                    self._instance = set_up(self.endpoint, request.context)
            return self._instance


class _Request:
    """One payload on its way."""

    def __init__(self, serving: Serving, handler: Handler, payload: Any, asked: Asked) -> None:
        from restrike.engine.requests import Cancellation

        self._serving, self._handler, self._payload, self._asked = serving, handler, payload, asked
        self._cancellation = asked.cancellation or Cancellation()
        self._weights: dict[str, None] = {}
        self._is_over = False
        self.files = Files(folder=asked.folder, write=write_clip, told=asked.told)
        self.context = Context(
            slots={name: SlotModel(card, self._make) for name, card in serving.cards.items()},
            seed=checked_seed(asked.seed),
            files=self.files,
            check=self._cancellation.check,
            watch=asked.watch,
            provenance=self._provenance,
        )

    def close(self) -> None:
        """End it: a view of a model that was kept beyond this makes nothing more."""
        self._is_over = True

    def _make(self, card: ModelCard, request: Request) -> Generation:
        from restrike.engine.events import Noticed
        from restrike.engine.requests import StreamOptions

        if self._is_over:
            raise Refused(
                "a model of a request that is over was kept; take it from ctx.slots of this request"
            )
        seeded = with_seed(request, self.context.seed)
        options = StreamOptions(cancellation=self._cancellation, preview_every=self._asked.preview_every)
        job = self._serving.engine.submit(card, seeded, options)
        for event in job:
            self._asked.watch(event)
            if isinstance(event, Noticed):
                self.context.notice(event.message)
        made = job.result()
        self._weights |= {picture.provenance.weights: None for picture in made.pictures}
        return made

    def _provenance(self) -> Provenance:
        """Where pixels come from that a handler made or changed itself."""
        from restrike.engine.versions import versions
        from restrike.media import Provenance

        plain = payload_type(self._handler).plain(self._payload)
        return Provenance(
            card=f"endpoint {self._serving.endpoint.name}",
            weights=" ".join(self._weights),
            arguments={"handler": self._handler.name, "payload": plain},
            seed=self.context.seed,
            item=0,
            versions=versions(()),
        )


def handler_of(endpoint: Endpoint, name: str | None) -> Handler:
    """The handler of that name, or the only one; raises Unknown or Refused."""
    return endpoint.handlers[handler_named(endpoint.name, tuple(endpoint.handlers), name)]


def handler_named(endpoint: str, handlers: Sequence[str], name: str | None) -> str:
    """Which of an endpoint's handlers is meant, None being the only one; raises Unknown or Refused."""
    if name is None:
        if len(handlers) > 1:
            listed = ", ".join(handlers)
            raise Refused(f"endpoint '{endpoint}' has several handlers; name one of {listed}")
        return handlers[0]
    if name not in handlers:
        raise Unknown(f"handler of endpoint '{endpoint}'", name, handlers)
    return name


def set_up(endpoint: Endpoint, context: Context) -> Any:
    """An instance of an endpoint's class, set up; the function itself when it is one."""
    if not isinstance(endpoint.target, type):
        return endpoint.target
    instance = endpoint.target()
    if hasattr(instance, "setup"):
        instance.setup(context)
    return instance


def bound(handler: Handler, instance: Any) -> Callable[[Context, Any], Any]:
    """What is called with a context and a payload."""
    return getattr(instance, handler.method) if handler.method else handler.function


def with_seed(request: Request, seed: int) -> Request:
    """The request with a seed of its own, or else this one."""
    return replace(request, seed=seed) if request.seed is None else request


def checked_seed(seed: int | None) -> int:
    """A seed that was given, or a drawn one; raises Refused."""
    if seed is None:
        return secrets.randbelow(SEED_LIMIT + 1)
    if not 0 <= seed <= SEED_LIMIT:
        raise Refused(f"seed {seed} is not an integer from 0 to {SEED_LIMIT}")
    return seed


@contextmanager
def told(endpoint: Endpoint, handler: Handler) -> Iterator[None]:
    """A block of a handler's code: what it raises leaves as one of `restrike.errors`, with its place."""
    try:
        yield
    except RestrikeError:
        raise
    except Exception as error:
        failure = typed(error)
        if not isinstance(failure, Crashed):
            raise failure from error
        code = handler.function.__code__.co_filename
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == code
        ]
        where = f" at {Path(code).name}:{lines[-1]}" if lines else ""
        whose = f"handler '{handler.name}' of endpoint '{endpoint.name}'{where}"
        raise Crashed(f"{whose}: {failure.message}") from error

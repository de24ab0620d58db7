"""From what an interface was asked for to a job: the one way in, with the checks of the command line.

It is called on threads, for planning reads files; it runs no job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import NotHere
from restrike.cards.identity import WeightStamp, read_by_loops, stamp_of
from restrike.errors import Conflict, Finding, Refused
from restrike.keys import digest
from restrike.server.bodies import asked_of, source_of
from restrike.server.endpoints.calling import call_of
from restrike.server.generation import STEP
from restrike.server.jobs.model import Job, JobKind, Submission
from restrike.server.jobs.rows import text_of
from restrike.server.place import DEFAULT_WORKSPACE
from restrike.server.projection import memory_notice
from restrike.server.routing import likeness
from restrike.server.service import Service
from restrike.server.workers import no_room
from restrike.workflow.agreement import PlanChanged
from restrike.workflow.findings import InvalidWorkflow
from restrike.workflow.graph import Graph
from restrike.workflow.operations.generate import Generate
from restrike.workflow.plan import Plan, plan
from restrike.workflow.source import Source


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is to be done: a kind and a body as the queue keeps them, in a workspace.

    `trusted` requests may name folders of the server. `source` is the workflow where it lies in a file, so
    that it finds the files that it names beside itself.
    """

    kind: JobKind
    body: Mapping[str, Any]
    workspace: str = DEFAULT_WORKSPACE
    trusted: bool = False
    source: Source | None = None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How it is to be done: once for all retries of a client, how soon, and up to which cost."""

    client_id: str | None = None
    priority: int = 0
    accept_plan: str | None = None
    max_seconds: float | None = None
    max_download_bytes: int | None = None

    @property
    def asks_for_a_plan(self) -> bool:
        """Whether it depends on what would run."""
        return (self.accept_plan, self.max_seconds, self.max_download_bytes) != (None, None, None)


def graph_of(service: Service, work: Work) -> Graph:
    """The expanded workflow; raises InvalidWorkflow with all that is wrong, or Refused. Writes nothing."""
    check_plain(work.body)
    session = service.session(work.workspace, trusted=work.trusted)
    source = work.source or source_of(work.kind, work.body)
    try:
        return session.graph(source, asked_of(work.kind, work.body), create=False)
    except InvalidWorkflow as error:
        if work.kind is JobKind.WORKFLOW:
            raise
        raise InvalidWorkflow(map(_of_generation, error.findings)) from error


def _of_generation(finding: Finding) -> Finding:
    """A finding at its place in the generation, which knows nothing of the step that it becomes."""
    step = f"steps.{STEP}."
    path = finding.path.removeprefix(f"{step}arguments.").removeprefix(step)
    return Finding(path="card" if path == "generate" else path, message=finding.message)


def plan_of(service: Service, work: Work) -> Plan:
    """What would run, with a notice where main memory may run short; raises as `graph_of`."""
    graph = graph_of(service, work)
    found = _planned(service, work, graph)
    notice = memory_notice(service, likeness(work.kind, graph.name, _needs_of(graph).weights, work.body))
    return found if notice is None else replace(found, notices=(*found.notices, notice))


def submit(service: Service, work: Work, terms: Terms | None = None) -> Job:
    """Accept work: when this returns, it survives the death of any process.

    Raises:
        InvalidWorkflow: with all that is wrong.
        PlanChanged: what would run is not what was accepted; it says what is.
        Conflict: the client id was used for other work.
        Refused: it would cost more than allowed, is too large for every worker, or the server drains.
    """
    terms = terms or Terms()
    check_plain(work.body)
    asked = str(digest("request", "1", [str(work.kind), text_of(work.body)]))
    earlier = _earlier(service, work, terms, asked)
    if earlier is not None:
        return earlier
    if work.kind is JobKind.ENDPOINT:
        _refuse_plan(terms)
        call = call_of(service, work.body, work.workspace, trusted=work.trusted)
        return _accepted(service, work, terms, {**call.body, REQUEST: asked}, call.label, _needs(call.cards))
    graph = graph_of(service, work)
    if terms.asks_for_a_plan:
        _agree(_planned(service, work, graph), terms)
    return _accepted(service, work, terms, _snapshot(work, graph, asked), graph.name, _needs_of(graph))


@dataclass(frozen=True, kw_only=True)
class _Needs:
    """The weights that are read, by identity, and how large their files that are here are.

    A device has to take those of one card, `largest_bytes`; main memory what is read at once on the way to a
    device with memory of its own, `read_bytes`: one component.
    """

    weights: tuple[str, ...]
    largest_bytes: int
    read_bytes: int


def _accepted(
    service: Service, work: Work, terms: Terms, body: Mapping[str, Any], label: str, needs: _Needs
) -> Job:
    _check_fits(service, needs)
    accepted = service.queue.submit(
        Submission(
            kind=work.kind,
            body=body,
            workspace=work.workspace,
            client_id=terms.client_id,
            priority=terms.priority,
            needs=needs.weights,
            need_bytes=needs.largest_bytes,
            label=label,
        )
    )
    notice = memory_notice(service, likeness(work.kind, label, needs.weights, body))
    if notice is not None:
        service.queue.tell(accepted.id, "notice", {"step": label, "message": notice})
    service.waking()
    return accepted


def _refuse_plan(terms: Terms) -> None:
    if terms.asks_for_a_plan:
        raise Refused(
            "what an endpoint does is not planned; leave accept_plan, max_seconds, max_download_bytes out"
        )


def check_plain(body: Mapping[str, Any]) -> None:
    """Refuse what JSON can say and nobody can keep: numbers that are none, halves of letters."""
    try:
        text_of(body).encode()
    except (ValueError, RecursionError) as error:
        raise Refused("the body holds NaN, an infinity or an unpaired surrogate") from error


def _earlier(service: Service, work: Work, terms: Terms, asked: str) -> Job | None:
    """The job of an earlier try of the same client, found before its workflow is read anew."""
    if terms.client_id is None:
        return None
    job = service.history.of_client(work.workspace, terms.client_id)
    if job is None or job.kind is not work.kind:
        return None
    if job.body.get(REQUEST, asked) != asked:
        raise Conflict(f"client id '{terms.client_id}' was used for another job, {job.id}; use a new one")
    return job if REQUEST in job.body else None


REQUEST = "request"
"""The digest of what was asked for, beside the workflow that it meant then."""


def _planned(service: Service, work: Work, graph: Graph) -> Plan:
    fresh = frozenset(asked_of(work.kind, work.body).rerun)
    return plan(graph, service.store, fresh=fresh)


def _agree(found: Plan, terms: Terms) -> None:
    if terms.accept_plan is not None and terms.accept_plan != found.fingerprint:
        agreed = terms.accept_plan[:12]
        raise PlanChanged(
            f"the plan is not {agreed} any more; look at the new one, and submit again to accept it", found
        )
    if terms.max_seconds is not None and found.seconds > terms.max_seconds:
        raise Refused(f"it is expected to take {found.seconds:.1f} s, over max_seconds {terms.max_seconds:g}")
    if terms.max_download_bytes is None:
        return
    if any(row.download_bytes is None for row in found.rows):
        raise Refused("what it has to download is not known now, so max_download_bytes cannot be kept")
    if found.download_bytes > terms.max_download_bytes:
        raise Refused(
            f"it has to download {found.download_bytes} bytes, "
            f"over max_download_bytes {terms.max_download_bytes}"
        )


def _snapshot(work: Work, graph: Graph, asked: str) -> Mapping[str, Any]:
    """The body that is kept: no file is read again, but seeds that are drawn are drawn when it runs."""
    if work.kind is not JobKind.WORKFLOW:
        return work.body
    written = (work.source or source_of(work.kind, work.body)).tree
    tree = dict(graph.realized)
    tree["seed"] = written.get("seed", "random")
    steps = {name: dict(step) for name, step in tree["steps"].items()}
    for name, step in steps.items():
        step.pop("seed", None)
        if "seed" in written["steps"][name]:
            step["seed"] = written["steps"][name]["seed"]
    return {
        **work.body,
        "definition": {**tree, "steps": steps},
        "name": graph.name,
        "values": {},
        REQUEST: asked,
    }


def _needs_of(graph: Graph) -> _Needs:
    operations = {id(a.operation): a.operation for a in graph.actions}.values()
    generations = [operation for operation in operations if isinstance(operation, Generate)]
    return _needed((operation.card, lambda o=operation: o.stamp) for operation in generations)


def _needs(cards: Iterable[ModelCard]) -> _Needs:
    return _needed((card, lambda card=card: stamp_of(card)) for card in cards)


def _needed(read: Iterable[tuple[ModelCard, Callable[[], WeightStamp]]]) -> _Needs:
    found: dict[str, None] = {}
    sizes = [(0, 0)]
    for card, stamp in read:
        try:
            found[stamp().weights] = None
        except (NotHere, Refused):
            continue
        sizes.append(_sizes_bytes(card))
    largest, read_at_once = map(max, zip(*sizes, strict=True))
    return _Needs(weights=tuple(found), largest_bytes=largest, read_bytes=read_at_once)


def _sizes_bytes(card: ModelCard) -> tuple[int, int]:
    """The bytes of a card's files that are here, and of those of its largest component."""
    if card.location is None:
        return 0, 0
    parts = [part.files for part in read_by_loops(card)]
    patterns = tuple(pattern for files in parts for pattern in files)
    here = card.location.present(patterns)

    def size(patterns: tuple[str, ...]) -> int:
        return sum(path.stat().st_size for path in set(here.files(patterns)))

    return size(patterns), max(map(size, parts), default=0)


def _check_fits(service: Service, needs: _Needs) -> None:
    workers = service.workers.live()
    if not workers or not needs.largest_bytes:
        return
    refusal = no_room(workers, needs.largest_bytes)
    if refusal is not None:
        raise Refused(refusal)
    through = [worker.host_bytes for worker in workers if needs.largest_bytes <= worker.memory_bytes]
    most = max((host_bytes for host_bytes in through if host_bytes is not None), default=0)
    if None not in through and needs.read_bytes > most:
        raise Refused(
            f"its largest component has {needs.read_bytes} bytes, which are read through main memory; "
            f"that has {most}"
        )


def again(service: Service, job: Job, *, seed: int | None, terms: Terms, trusted: bool) -> Job:
    """The work of a job once more, with its seed, given or drawn for it, or another."""
    if seed is None and job.body.get("seed") is None:
        seed = job.record.get("seed")
    body = dict(job.body) if seed is None else {**job.body, "seed": seed}
    work = Work(kind=job.kind, body=body, workspace=job.workspace, trusted=trusted)
    return submit(service, replace(work, body={k: v for k, v in body.items() if k != REQUEST}), terms)

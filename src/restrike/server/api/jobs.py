"""Jobs: submit, look, cancel, do again, move, follow. States are the queue's; nothing here changes one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from restrike.errors import NotFound, RestrikeError
from restrike.server.api.asking import (
    HERE,
    Limit,
    TheGrant,
    TheService,
    Workspace,
    check_trust,
    heavy,
    may_be_trusted,
)
from restrike.server.api.bodies import MoveForm, RerunForm, SubmitForm
from restrike.server.api.serving import served
from restrike.server.jobs.model import Job, JobState
from restrike.server.problems import Rejected
from restrike.server.service import Service
from restrike.server.standing import why_waiting
from restrike.server.streaming import EventStream, Follow, event_view
from restrike.server.submitting import Terms, again, submit
from restrike.server.views import files_of, job_view
from restrike.workflow.runs import RunFolder

router = APIRouter(prefix="/api", tags=["jobs"])
_BIG = (1 << 63) - 1
After = Annotated[int | None, Query(ge=0, le=_BIG, description="Only events after this number.")]
LastId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=20)]


@router.post("/jobs", status_code=202, summary="Submit a workflow or a generation")
async def submit_job(form: SubmitForm, service: TheService, grant: TheGrant, response: Response) -> Any:
    """Answered with an id only when the job is durable: it then survives the death of any process.

    Going away after that does not stop the job; cancel it if it shall stop.
    """
    check_trust(form.trusted, grant)

    def do() -> dict[str, Any]:
        return detail(service, submit(service, form.work(service), form.terms()))

    job = await heavy(service, do)
    response.headers["location"] = job["links"]["self"]
    return job


@router.get("/jobs", summary="List jobs, the newest first")
def list_jobs(
    service: TheService,
    workspace: Workspace = HERE,
    state: JobState | None = None,
    limit: Limit = 50,
    before: Annotated[str | None, Query(max_length=100, description="`next` of the last answer.")] = None,
) -> Any:
    """Those of one workspace. `next` leads to the ones before them."""
    found = service.history.jobs(state=state, workspace=workspace, before=_place(before), limit=limit)
    more = f"{found[-1].created!r}:{found[-1].id}" if len(found) == limit else None
    jobs = [_shown(service, {**job_view(job), "progress": _progress(service, job)}) for job in found]
    return {"jobs": jobs, "next": service.shown(more)}


@router.get("/jobs/{job}", summary="Look at one job")
def read_job(job: str, service: TheService) -> Any:
    """Its state, why it went where it went or still waits, its place, its record and its files."""
    found = service.queue.job(job)
    view = detail(service, found)
    if found.state is JobState.QUEUED:
        view["why"] = why_waiting(service, found, view["position"])
    return view


@router.get("/jobs/{job}/body", summary="What was accepted")
def read_body(job: str, service: TheService) -> Any:
    """The snapshot that runs, whatever became of the files that it was made of."""
    return dict(service.queue.job(job).body)


@router.post("/jobs/{job}/cancel", summary="Cancel a job")
@router.delete("/jobs/{job}", summary="Cancel a job")
def cancel_job(job: str, service: TheService) -> Any:
    """One that waits is cancelled now, one that runs at its next step; one that ended stays as it is."""
    found = service.queue.cancel(job)
    service.waking()
    return detail(service, found)


@router.post("/jobs/{job}/rerun", status_code=202, summary="Do a job once more")
async def rerun_job(job: str, service: TheService, grant: TheGrant, form: RerunForm | None = None) -> Any:
    """The same work as a new job, with its seed or another; trusted as far as whoever asks may be."""
    form = form or RerunForm()

    def do() -> dict[str, Any]:
        found = service.queue.job(job)
        terms = Terms(client_id=form.client_id, priority=found.priority)
        trusted = may_be_trusted(grant)
        return detail(service, again(service, found, seed=form.chosen(), terms=terms, trusted=trusted))

    return await heavy(service, do)


@router.post("/jobs/{job}/move", summary="Change where a waiting job stands")
def move_job(job: str, form: MoveForm, service: TheService) -> Any:
    """By its priority, or right before another."""
    return detail(service, service.queue.move(job, priority=form.priority, before=form.before))


@router.get("/jobs/{job}/log", summary="What happened to a job so far")
def read_log(job: str, service: TheService, after: After = None, limit: Limit = 200) -> Any:
    """A page of its events, for those who do not stream."""
    service.queue.job(job)
    found = service.history.events(after=after or 0, job=job, limit=limit)
    return {"events": [event_view(event, service.shown) for event in found]}


@router.get("/jobs/{job}/previews/{number}", summary="How a running job looks", response_class=Response)
def read_preview(job: str, number: str, request: Request, service: TheService) -> Response:
    """A small picture; its name is in the job's events. It may be gone at any time."""
    path = service.place.preview(f"{job}/{number}")
    if not path.is_file():
        raise NotFound(f"no preview '{number}' of job '{job}'")
    return served(path, request)


@router.get(
    "/jobs/{job}/events", summary="Follow one job", responses={200: {"content": {"text/event-stream": {}}}}
)
def follow_job(job: str, service: TheService, after: After = None, last: LastId = None) -> Response:
    """Server-sent events from the first one, or after `Last-Event-ID`; the stream ends with the job."""
    service.queue.job(job)
    return _stream(service, job, _after(after, last) or 0)


@router.get("/events", summary="Follow all jobs", responses={200: {"content": {"text/event-stream": {}}}})
def follow_all(service: TheService, after: After = None, last: LastId = None) -> Response:
    """Server-sent events after `Last-Event-ID`, or after the newest one there is when this is asked.

    The stream tells that number first, as an `id` without data: all that happens after it is told, also to a
    reader that is cut off before the first event and comes back with it.
    """
    start = _after(after, last)
    return _stream(service, None, service.history.last_sequence() if start is None else start)


def detail(service: Service, job: Job) -> dict[str, Any]:
    """A job with its place in the queue, its files and where to go from it."""
    view = job_view(job)
    view["position"] = service.history.ahead_of(job) if job.state is JobState.QUEUED else None
    view["progress"] = _progress(service, job)
    view["files"] = _files(service, job)
    view["links"] = {
        "self": f"/api/jobs/{job.id}",
        "events": f"/api/jobs/{job.id}/events",
        "cancel": f"/api/jobs/{job.id}/cancel",
    }
    return _shown(service, view)


def _progress(service: Service, job: Job) -> Mapping[str, Any] | None:
    """The newest `progress` event of a running job's attempt; None before there is one."""
    if job.state is not JobState.RUNNING or job.started is None:
        return None
    told = service.history.latest(job.id, "progress")
    return None if told is None or told.time < job.started else told.data


def _shown(service: Service, view: dict[str, Any]) -> dict[str, Any]:
    """A job as an answer may have it; its title is its client's own words."""
    return {**service.shown(view), "title": view["title"]}


def _files(service: Service, job: Job) -> list[dict[str, Any]]:
    if job.run is None:
        return []
    try:
        folder = RunFolder.open(service.place.workspace(job.workspace), job.run)
        return list(files_of(folder.manifest(), job.workspace))
    except RestrikeError:  # a run that was deleted, or has nothing in it yet
        return []


def _stream(service: Service, job: str | None, after: int) -> Response:
    return EventStream(
        Follow(
            news=service.news,
            history=service.history,
            after=after,
            job=job,
            shown=service.shown,
        )
    )


def _after(after: int | None, last: str | None) -> int | None:
    """The header of a browser that comes back goes before what it was first asked for with."""
    if last is None:
        return after
    if not last.isascii() or not last.isdigit() or int(last) > _BIG:
        raise Rejected(400, "Last-Event-ID is no number of an event")
    return int(last)


def _place(before: str | None) -> tuple[float, str] | None:
    if before is None:
        return None
    created, _, name = before.partition(":")
    try:
        found = float(created)
    except ValueError:
        found = float("nan")
    if not 0 <= found < 1e12 or not name.isprintable():
        raise Rejected(400, "before: give back `next` of an answer as it was")
    return found, name

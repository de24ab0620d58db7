"""What all interfaces show of jobs, plans, runs and workers: plain values. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any
from urllib.parse import quote, urlencode

from restrike.server.generation import NAME, STEP
from restrike.server.jobs.model import Failure, Job
from restrike.server.place import DEFAULT_WORKSPACE
from restrike.server.workers import WorkerRow
from restrike.workflow.graph import Graph
from restrike.workflow.plan import Plan
from restrike.workflow.runs import Manifest

_CLASSES = {"Shortfall": "shortfall", "Crashed": "crashed", "Cancelled": "cancelled"}
_TITLE = 120
MEDIA = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".wav": "audio/wav",
}
"""The kinds that a browser shows by itself, by suffix; they hold no code."""


def job_view(job: Job) -> dict[str, Any]:
    """A job, without its body."""
    return {
        "id": job.id,
        "kind": str(job.kind),
        "state": str(job.state),
        "workspace": job.workspace,
        "label": job.label,
        "title": title_of(job),
        "priority": job.priority,
        "created": job.created,
        "started": job.started,
        "ended": job.ended,
        "attempt": job.attempt,
        "kills": job.kills,
        "worker": job.worker,
        "device": job.device,
        "why": job.why,
        "cancel_requested": job.cancel_requested,
        "failure": None if job.failure is None else failure_view(job.failure),
        "run": job.run,
        "record": dict(job.record),
    }


def title_of(job: Job) -> str:
    """What people know a job by: its prompt, or its workflow's name."""
    return str(job.body.get("prompt") or _prompt_of(job) or job.label or job.kind)[:_TITLE]


def _prompt_of(job: Job) -> Any:
    """The prompt of a generation that is made again, which is run as the workflow that it had become."""
    definition = job.body.get("definition")
    if job.label != NAME or not isinstance(definition, dict):
        return None
    return definition["steps"].get(STEP, {}).get("arguments", {}).get("prompt")


def failure_view(failure: Failure) -> dict[str, Any]:
    """Why a job failed, its class by the name that all interfaces use."""
    return {
        "class": _CLASSES.get(failure.kind, "refused"),
        "kind": failure.kind,
        "reason": failure.reason,
        "step": failure.step,
        "remedy": failure.remedy,
    }


def plan_view(plan: Plan) -> dict[str, Any]:
    """A plan as `restrike plan --json` prints it."""
    return {**asdict(plan), "seconds": plan.seconds, "download_bytes": plan.download_bytes}


def graph_view(graph: Graph) -> dict[str, Any]:
    """What `restrike validate --json` prints of a workflow with nothing wrong."""
    return {
        "valid": True,
        "findings": [],
        "workflow": graph.name,
        "steps": [{"id": action.id, "runs": action.operation.label} for action in graph.actions],
        "elided": list(graph.elided),
        "notices": list(graph.notices),
    }


def run_view(manifest: Manifest, workspace: str) -> dict[str, Any]:
    """A run with its steps and the places of its files; which process works on it is no one's concern."""
    found = asdict(manifest)
    del found["owner"], found["schema"]
    found["status"] = "interrupted" if manifest.is_interrupted else manifest.status
    found["files"] = list(files_of(manifest, workspace))
    return found


def files_of(manifest: Manifest, workspace: str) -> Iterator[dict[str, Any]]:
    """The files of a run, in the order of its steps."""
    for step in manifest.steps:
        for file in step.files:
            yield {
                "file": file.file,
                "step": step.action,
                "label": step.label,
                "size_bytes": file.size_bytes,
                "sha256": file.sha256,
                "reused": step.status == "reused",
                "media_type": media_type(file.file),
                "url": file_url(manifest.run, file.file, workspace),
            }


def file_url(run: str, file: str, workspace: str) -> str:
    """Where a file of a run is served."""
    return f"/api/runs/{quote(run)}/files/{quote(file)}{query(workspace)}"


def query(workspace: str) -> str:
    """The end of a URL in a workspace."""
    return "" if workspace == DEFAULT_WORKSPACE else f"?{urlencode({'workspace': workspace})}"


def media_type(name: str) -> str:
    """The content type of a file by its suffix; what a browser could run is plain bytes."""
    suffix = f".{name.rpartition('.')[2].lower()}"
    texts = {".txt": "text/plain; charset=utf-8", ".json": "application/json"}
    return MEDIA.get(suffix) or texts.get(suffix) or "application/octet-stream"


def cells_view(workers: Iterable[WorkerRow]) -> list[dict[str, Any]]:
    """What cells did on each device for each card, since its worker was started."""
    return [
        {"device": worker.device, "worker": worker.id, "card": card.card, **asdict(card.cells)}
        for worker in workers
        for card in worker.report.cards
    ]


def captures_view(workers: Iterable[WorkerRow]) -> list[dict[str, Any]]:
    """What captures did on each device for each card, since its worker was started."""
    return [
        {"device": worker.device, "worker": worker.id, "card": card.card, **asdict(card.captures)}
        for worker in workers
        for card in worker.report.cards
    ]


def worker_view(worker: WorkerRow, now: float) -> dict[str, Any]:
    """A worker, with what it holds and when it was heard."""
    return {
        "id": worker.id,
        "device": worker.device,
        "state": worker.state,
        "silent_s": round(max(now - worker.heartbeat, 0.0), 3),
        "memory_bytes": worker.memory_bytes,
        "job": worker.report.job,
        "attempt": worker.report.attempt,
        "resident": list(worker.report.resident),
        "armed": list(worker.report.armed),
        "rss_bytes": worker.report.rss_bytes,
        "resident_bytes": worker.report.resident_bytes,
    }

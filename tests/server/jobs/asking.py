"""Jobs and workers as the tests of the queue need them."""

from __future__ import annotations

from typing import Any

from restrike.server.jobs.model import JobKind, JobState, Outcome, Submission, WorkerFacts

DONE = Outcome(state=JobState.SUCCEEDED)


def asked(prompt: str = "a seven", **changes: Any) -> Submission:
    """A generation with digits."""
    body = {"card": "digits", "prompt": prompt, "seed": 7}
    return Submission(kind=JobKind.GENERATION, body=body, workspace="main", **changes)


def worker(name: str = "one", **changes: Any) -> WorkerFacts:
    """A worker on the CPU with a gibibyte."""
    return WorkerFacts(**({"id": name, "device": f"cpu:{name}", "memory_bytes": 1 << 30} | changes))

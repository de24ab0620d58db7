"""A job's call of an endpoint, in a run folder of its own. An attempt that died is begun anew, with its seed.

What runs the handler is `endpoints.serving`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from restrike.endpoints.context import Progressed
from restrike.endpoints.payloads import payload_type
from restrike.endpoints.serving import Answer, Asked, Serving, checked_seed, handler_of
from restrike.engine.counts import Executed, together
from restrike.engine.events import Started, Succeeded
from restrike.engine.requests import Cancellation
from restrike.errors import Cancelled, Crashed, NotFound, Refused, RestrikeError, printable, typed
from restrike.server.endpoints.pictures import pictures_of
from restrike.server.jobs.model import Job
from restrike.server.views import file_url
from restrike.server.worker.folders import manifest_of
from restrike.server.worker.servings import Servings
from restrike.server.worker.watching import Watching
from restrike.store.files import write_file
from restrike.store.owner import Owner
from restrike.workflow.runner import RunBegan, StepEnded
from restrike.workflow.runs import DEFINITION, MANIFEST, FileRecord, Manifest, RunFolder, StepRecord

ANSWER = "answer.json"
ANSWER_LIMIT_BYTES = 1 << 20
_NOTICES, _NOTICE = 100, 2000
_NOT_KEPT = "what an endpoint answers is not kept for other calls"


@dataclass(kw_only=True)
class Calling:
    """The call of one attempt."""

    job: Job
    workspace: Path
    servings: Servings
    watching: Watching
    preview_every: int = 0
    _generations: int = field(default=0, init=False)
    _executed: list[Executed] = field(default_factory=list, init=False)

    def do(self, cancellation: Cancellation) -> Manifest:
        """Call the handler; raises what it raised, and then leaves no file of it."""
        cancellation.check()
        earlier = self.manifest()
        if earlier is not None and earlier.status == "finished":
            return earlier  # Its worker died after the last write and before it could say so.
        folder = self._folder(earlier)
        with folder.worked_on():
            _clear(folder)
            manifest = self._begun(folder, earlier)
            folder.write(manifest)
            self.watching.step_began(self._step, self._label)
            try:
                return self._done(folder, manifest, cancellation)
            except BaseException as error:
                self._fail(folder, manifest, error)
                raise

    def manifest(self) -> Manifest | None:
        """What stands in the job's run folder."""
        return manifest_of(self.workspace, self.watching.run_name)

    def record(self, manifest: Manifest | None) -> Mapping[str, Any]:
        """Times and what computed it, and with the end of it what the handler returned."""
        if manifest is None or manifest.status != "finished":
            return self.watching.record(manifest)
        path = RunFolder.open(self.workspace, manifest.run).path / ANSWER
        answer = json.loads(path.read_text(encoding="utf-8"))
        return {**self.watching.record(manifest), "answer": answer}

    @property
    def _step(self) -> str:
        return str(self.job.body["handler"])

    @property
    def _label(self) -> str:
        return f"endpoint {self.job.body['endpoint']}"

    def _folder(self, earlier: Manifest | None) -> RunFolder:
        """The folder of an attempt before this one, or a new one."""
        if earlier is not None:
            return RunFolder.open(self.workspace, earlier.run)
        if self.job.run is not None:
            with suppress(NotFound):
                RunFolder.open(self.workspace, self.job.run).delete()
        safe = re.sub(r"[^A-Za-z0-9_-]", "-", str(self.job.body["endpoint"]))
        folder = RunFolder.create(self.workspace, f"endpoint-{safe}")
        self.watching.run(RunBegan(run=folder.name))
        return folder

    def _begun(self, folder: RunFolder, earlier: Manifest | None) -> Manifest:
        """The seed is drawn once: an attempt that follows one that died makes what that would have made."""
        body = self.job.body
        seed = earlier.seed if earlier is not None else checked_seed(body.get("seed"))
        names = ("endpoint", "handler", "payload", "slots")
        folder.write_definition({**{name: body.get(name) for name in names}, "seed": seed})
        return Manifest(
            run=folder.name,
            workflow=folder.path.parent.name,
            status="running",
            owner=str(Owner.here()),
            started=time.time(),
            seed=seed,
            variables=body.get("payload") or {},
        )

    def _done(self, folder: RunFolder, begun: Manifest, cancellation: Cancellation) -> Manifest:
        body = self.job.body
        serving = self.servings.serving(body["endpoint"], body.get("slots") or {})
        handler = handler_of(serving.endpoint, body["handler"])
        text = json.dumps(body.get("payload") or {})
        payload = payload_type(handler).read_json(text, pictures_of(self.workspace))
        answer = self._answer(serving, payload, folder, begun.seed, cancellation)
        write_file(folder.path / ANSWER, _bytes(answer))
        record = self._recorded(folder, answer)
        notices = tuple(printable(message)[:_NOTICE] for message in answer.notices[:_NOTICES])
        for message in notices:
            self.watching.telling.tell("notice", {"step": self._step, "message": message})
        ended = replace(begun, status="finished", ended=time.time(), steps=(record,), notices=notices)
        folder.write(ended)
        self.watching.run(StepEnded(record=record))
        return ended

    def _answer(
        self, serving: Serving, payload: Any, folder: RunFolder, seed: int, cancellation: Cancellation
    ) -> Answer:
        asked = Asked(
            handler=self._step,
            seed=seed,
            folder=folder.path,
            told=self._told_at(folder.name),
            cancellation=cancellation,
            preview_every=self.preview_every,
            watch=self._seen,
        )
        own = os.getpid()
        try:
            return serving.call(payload, asked)
        finally:
            # A copy that the handler forked and did not end must write nothing in this one's name.
            if os.getpid() != own:
                os._exit(0)

    def _told_at(self, run: str) -> Callable[[Path], str]:
        return lambda path: file_url(run, path.name, self.job.workspace)

    def _seen(self, event: Any) -> None:
        """What the handler, or a generation of it, says; each generation has a name of its own."""
        if isinstance(event, Progressed):
            self.watching.progressed(self._step, event)
            return
        if isinstance(event, Started):
            self._generations += 1
        if isinstance(event, Succeeded):
            self._executed.append(event.generation.executed)
        number = self._generations
        self.watching.engine(self._step if number == 1 else f"{self._step}.{number}", event)

    def _recorded(self, folder: RunFolder, answer: Answer) -> StepRecord:
        files = tuple(
            FileRecord(
                file=saved.name,
                key=None,
                sha256=saved.sha256,
                size_bytes=(folder.path / saved.name).stat().st_size,
                reused=False,
            )
            for saved in answer.files
        )
        return StepRecord(
            action=self._step,
            label=self._label,
            status="computed",
            seconds=answer.seconds,
            reason=_NOT_KEPT,
            files=files,
            executed=together(self._executed),
        )

    def _fail(self, folder: RunFolder, begun: Manifest, error: BaseException) -> None:
        failure = typed(error)
        status = "cancelled" if isinstance(failure, Cancelled) else "failed"
        record = StepRecord(
            action=self._step, label=self._label, status=status, seconds=0.0, reason=failure.message
        )
        ended = replace(
            begun, status=status, ended=time.time(), steps=(record,), error=f"{self._step}: {failure.message}"
        )
        # A disk too full for the manifest must not hide what went wrong.
        with suppress(RestrikeError, OSError):
            _clear(folder)
            folder.write(ended)


def _clear(folder: RunFolder) -> None:
    """Remove what an attempt made that did not end well: the files of a call are all there, or none."""
    folder.sweep()
    for path in folder.path.iterdir():
        if path.name in (MANIFEST, DEFINITION):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _bytes(answer: Answer) -> bytes:
    """What a handler returned, as JSON that can be kept and sent."""
    try:
        found = json.dumps(answer.value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Crashed(
            f"handler '{answer.handler}' returned what JSON cannot hold: NaN, an infinity, or half a letter"
        ) from error
    if len(found) > ANSWER_LIMIT_BYTES:
        raise Refused(
            f"handler '{answer.handler}' returned {len(found)} bytes of JSON, over {ANSWER_LIMIT_BYTES}; "
            "let it save files instead"
        )
    return found

"""The pictures of a job in OpenAI's forms: one answer with all, or events: previews, then each picture.

A preview is the job's own, of its first picture; a job that reused all its steps shows none.
"""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
from fastapi import Request

from restrike.errors import RestrikeError
from restrike.server.jobs.model import Job, JobEvent
from restrike.server.made import MadeFile, made, seed_of
from restrike.server.openai.asked import AUTO, ImageAsked
from restrike.server.openai.failures import described
from restrike.server.openai.waiting import abandon, events_of, outcome
from restrike.server.service import Service

# Tokens are not what pictures cost here; the field is required in OpenAI's event.
_NO_TOKENS = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
_NO_USAGE = {**_NO_TOKENS, "input_tokens_details": {"image_tokens": 0, "text_tokens": 0}}


@dataclass(frozen=True, kw_only=True)
class Answering:
    """How the pictures of one job are answered; `kind` begins the names of its events."""

    service: Service
    request: Request
    job: Job
    asked: ImageAsked
    kind: str

    def whole(self, ended: Job, base_url: str) -> dict[str, Any]:
        """The answer with all pictures, each in it or as a link; `seed` and `job` are ours."""
        files = made(self.service, ended)
        if self.asked.response_format == "url":
            data = [{"url": f"{base_url.rstrip('/')}{file.url}"} for file in files]
        else:
            data = [{"b64_json": _text(file.path.read_bytes())} for file in files]
        return {
            "created": int(ended.ended or ended.created),
            "data": data,
            "output_format": self.asked.output_format,
            "size": _size(files[0].path),
            "seed": seed_of(files[0]),
            "job": ended.id,
        }

    async def frames(self) -> AsyncIterator[bytes]:
        """The events as server-sent events; a reader that goes away may cancel the job."""
        finished = False
        try:
            async for frame in self._previews():
                yield frame
            ended = await outcome(self.service, self.job)
            finished = True
            for picture in await anyio.to_thread.run_sync(made, self.service, ended):
                yield _frame(await anyio.to_thread.run_sync(self._completed, ended, picture))
        except RestrikeError as error:
            finished = True
            yield _frame({"type": "error", "error": self.service.shown(described(error))})
        finally:
            if not finished:
                await abandon(self.service, self.job, self.request)

    async def _previews(self) -> AsyncIterator[bytes]:
        shown, total = 0, 0
        async for event in events_of(self.service, self.job):
            if event is None:
                yield b": still here\n\n"
            elif event.kind == "progress":
                total = event.data.get("total") or total
            elif self._is_due(event, shown, total):
                picture = await anyio.to_thread.run_sync(self._preview, event.data["file"])
                if picture is not None:
                    yield _frame(self._event("partial_image", picture) | {"partial_image_index": shown})
                    shown += 1

    def _is_due(self, event: JobEvent, shown: int, total: int) -> bool:
        """Whether the next preview is shown: they are spread evenly over the steps."""
        if event.kind != "preview" or event.data.get("item") or shown >= self.asked.partial_images:
            return False
        due = total * (shown + 1) // (self.asked.partial_images + 1)
        return event.data["done"] >= due

    def _preview(self, name: str) -> bytes | None:
        """A preview in the format asked for; None when it was removed meanwhile."""
        from PIL import Image

        try:
            picture = Image.open(self.service.place.preview(name))
            written = io.BytesIO()
            picture.convert("RGB").save(written, format=self.asked.output_format)
        except FileNotFoundError:
            return None
        return written.getvalue()

    def _completed(self, ended: Job, file: MadeFile) -> dict[str, Any]:
        made = {"usage": _NO_USAGE, "seed": seed_of(file), "job": ended.id}
        return self._event("completed", file.path.read_bytes()) | {"size": _size(file.path)} | made

    def _event(self, name: str, picture: bytes) -> dict[str, Any]:
        return {
            "type": f"{self.kind}.{name}",
            "b64_json": _text(picture),
            "created_at": int(time.time()),
            "output_format": self.asked.output_format,
            "size": self.asked.size,
            "quality": AUTO,
            "background": AUTO,
        }


def _frame(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _text(picture: bytes) -> str:
    return base64.b64encode(picture).decode()


def _size(path: Path) -> str:
    from PIL import Image

    with Image.open(path) as picture:
        return f"{picture.width}x{picture.height}"

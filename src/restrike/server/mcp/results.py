"""The tool that brings a job's results: links to all files, and as many of them as a budget of bytes holds.

A picture that is too large comes smaller, a clip as a strip of its frames, a sound as its beginning.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp_types import AudioContent, ContentBlock, ImageContent, TextContent
from pydantic import Field

from restrike.errors import RestrikeError
from restrike.server.api.asking import heavy
from restrike.server.made import MadeFile, made
from restrike.server.mcp.answers import compact, request_of
from restrike.server.mcp.excerpts import picture_within, sound_within, strip_within, text_within
from restrike.server.mcp.looking import Job_
from restrike.server.service import Service
from restrike.server.views import failure_view, media_type

BUDGET_BYTES, MOST_BYTES = 256 << 10, 4 << 20
_PAGE = 10


@dataclass(frozen=True, kw_only=True)
class Results:
    """Reads what jobs of one server made."""

    service: Service

    async def results(
        self,
        job: Job_,
        context: Context,
        max_bytes: Annotated[
            int, Field(ge=0, le=MOST_BYTES, description="For all contents together; 0 for links alone.")
        ] = BUDGET_BYTES,
        offset: Annotated[int, Field(ge=0, description="`next` of the last answer.")] = 0,
    ) -> list[ContentBlock]:
        """Get what a job made: a list with links first, then pictures, strips of clips, sounds and texts."""
        base = str(request_of(context).base_url).rstrip("/")
        return await heavy(self.service, lambda: self._results(job, base, max_bytes, offset))

    def _results(self, name: str, base: str, max_bytes: int, offset: int) -> list[ContentBlock]:
        job = self.service.queue.job(name)
        files = made(self.service, job) if job.run is not None else ()
        page = files[offset : offset + _PAGE]
        contents: list[ContentBlock] = []
        listed: list[dict[str, Any]] = []
        left = max_bytes
        for file in page:
            content, as_what = _content(file, left) if left else (None, "link")
            if content is not None:
                contents.append(content)
                left -= _cost(content)
            listed.append(_line(file, base, as_what))
        about: dict[str, Any] = {"job": job.id, "state": str(job.state), "files": listed}
        if offset + _PAGE < len(files):
            about["next"] = offset + _PAGE
        if job.failure is not None:
            about["failure"] = failure_view(job.failure)
        return [TextContent(type="text", text=compact(self.service.shown(about))), *contents]


def _line(file: MadeFile, base: str, as_what: str) -> dict[str, Any]:
    return {
        "file": file.name,
        "step": file.step,
        "type": media_type(file.name),
        "size_bytes": file.size_bytes,
        "sha256": file.sha256,
        "url": f"{base}{file.url}",
        "shown": as_what,
    }


def _content(file: MadeFile, left: int) -> tuple[ContentBlock | None, str]:
    """A file as far as so many bytes hold it, and as what; nothing for one that cannot be read or shown."""
    # What is sent is base64: four letters for three bytes.
    raw = left * 3 // 4
    kind = media_type(file.name).partition(";")[0]
    readers: dict[str, Callable[[], tuple[ContentBlock | None, str]]] = {
        "image": lambda: _image(picture_within(file.path, raw)),
        "video": lambda: _image(strip_within(file.path, raw)),
        "audio": lambda: _sound(sound_within(file.path, raw)),
        "text": lambda: _text(text_within(file.path, left)),
        "application/json": lambda: _text(text_within(file.path, left)),
    }
    reader = readers.get(kind) or readers.get(kind.partition("/")[0])
    if reader is None:
        return None, "link"
    try:
        return reader()
    except (RestrikeError, OSError):
        return None, "link"


def _image(found: tuple[bytes, str, str] | None) -> tuple[ContentBlock | None, str]:
    if found is None:
        return None, "link"
    data, mime_type, as_what = found
    return ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type=mime_type), as_what


def _sound(found: tuple[bytes, str] | None) -> tuple[ContentBlock | None, str]:
    if found is None:
        return None, "link"
    data, as_what = found
    return AudioContent(type="audio", data=base64.b64encode(data).decode(), mime_type="audio/wav"), as_what


def _text(found: tuple[str, str]) -> tuple[ContentBlock | None, str]:
    text, as_what = found
    return TextContent(type="text", text=text), as_what


def _cost(content: ContentBlock) -> int:
    return len(content.text.encode() if isinstance(content, TextContent) else content.data)  # type: ignore[union-attr]

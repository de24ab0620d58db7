"""Reads a stream of server-sent events, as the HTML standard writes them. It opens no connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Message:
    """One event of a stream: its kind, its data as text, and the last number told, None before any.

    One without data only tells the number.
    """

    kind: str
    data: str
    id: str | None = None


def messages(lines: Iterable[str]) -> Iterator[Message]:
    """The events of a stream's lines. One that was not finished when the stream ended is none."""
    kind, data = "message", list[str]()
    last, told = None, None
    for line in lines:
        if not line:
            if data or last != told:
                yield Message(kind=kind, data="\n".join(data), id=last)
            kind, data, told = "message", [], last
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            kind = value
        elif field == "id":
            last = value

"""Reads a stream of server-sent events, as the HTML standard writes them. It opens no connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Message:
    """One event of a stream: its kind, and its data as text."""

    kind: str
    data: str


def messages(lines: Iterable[str]) -> Iterator[Message]:
    """The events of a stream's lines. One that was not finished when the stream ended is none."""
    kind, data = "message", list[str]()
    for line in lines:
        if not line:
            if data:
                yield Message(kind=kind, data="\n".join(data))
            kind, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            kind = value

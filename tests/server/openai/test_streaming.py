"""Pictures as a stream: previews while they are made, then the picture itself; a reader that goes cancels."""

from __future__ import annotations

import base64
from typing import Any

import openai
import pytest
from openai import OpenAI

from server.openai.test_images import get
from serving import Server, until


def events_of(client: OpenAI, **given: Any) -> list[Any]:
    asked = {"model": "digits", "prompt": "a seven", "stream": True, **given}
    return list(client.images.generate(**asked))


def test_previews_come_before_the_picture_and_only_when_asked_for(client: OpenAI) -> None:
    shown = events_of(client, partial_images=1, extra_body={"seed": 71, "steps": 12})
    assert [event.type for event in shown] == ["image_generation.partial_image", "image_generation.completed"]
    assert shown[0].partial_image_index == 0
    assert base64.b64decode(shown[0].b64_json).startswith(b"\x89PNG")
    none = events_of(client, extra_body={"seed": 72, "steps": 12})
    assert [event.type for event in none] == ["image_generation.completed"]


def test_a_stream_ends_with_the_bytes_of_a_whole_answer(client: OpenAI) -> None:
    streamed = events_of(client, n=2, extra_body={"seed": 73})
    whole = client.images.generate(model="digits", prompt="a seven", n=2, extra_body={"seed": 73})
    assert [event.b64_json for event in streamed] == [each.b64_json for each in whole.data or ()]
    assert streamed[0].size == "8x8"
    assert streamed[0].usage.total_tokens == 0


def test_a_fault_is_told_before_the_stream_begins(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as failed:
        events_of(client, size="9x9")
    assert failed.value.param == "size"


def long_stream(client: OpenAI, seed: int) -> Any:
    """The stream of pictures that take long, of which the first event has come."""
    stream = client.images.generate(
        model="digits",
        prompt="a six",
        stream=True,
        partial_images=3,
        n=10,
        extra_body={"steps": 1000, "seed": seed},
    )
    next(iter(stream))
    return stream


def test_a_reader_that_goes_away_stops_the_work(client: OpenAI, server: Server) -> None:
    stream = long_stream(client, seed=74)
    job = get(f"{server.url}/api/jobs?limit=1")["jobs"][0]
    assert job["state"] == "running"
    stream.close()
    until(lambda: get(f"{server.url}/api/jobs/{job['id']}")["state"] == "cancelled")


def test_a_job_that_is_cancelled_elsewhere_ends_its_stream(client: OpenAI, server: Server) -> None:
    stream = long_stream(client, seed=75)
    job = get(f"{server.url}/api/jobs?limit=1")["jobs"][0]["id"]
    get(f"{server.url}/api/jobs/{job}/cancel", "POST")
    with pytest.raises(openai.APIError, match="was cancelled"):
        list(stream)

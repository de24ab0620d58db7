"""Videos over OpenAI's client: created for an id, polled, fetched, listed; a deletion stops the work."""

from __future__ import annotations

import io
import json
import time
import urllib.error
import urllib.request
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types import Video

from restrike.media.containers import Mp4
from restrike.media.video_reading import decode_video
from server.openai.test_images import get
from serving import Server, until

pytestmark = pytest.mark.filterwarnings("ignore:The Sora API:DeprecationWarning")
FEW: dict[str, Any] = {"seed": 5, "steps": 2}
MANY: dict[str, Any] = {"seed": 6, "steps": 1000}


def create(client: OpenAI, extra_body: dict[str, Any], **given: Any) -> Video:
    asked: dict[str, Any] = {"model": "shapes", "prompt": "a red circle moving left", **given}
    return client.videos.create(**asked, extra_body=extra_body)


def done(client: OpenAI, video: Video) -> Video:
    until(lambda: client.videos.retrieve(video.id).status not in ("queued", "in_progress"))
    return client.videos.retrieve(video.id)


@pytest.fixture(scope="module")
def video(server: Server) -> Video:
    """A clip that is done."""
    client = OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    began = create(client, FEW, seconds="1", size="64x64")
    assert (began.object, began.status, began.progress) == ("video", "queued", 0)
    return done(client, began)


def test_a_video_comes_to_its_end(client: OpenAI, video: Video) -> None:
    assert (video.status, video.progress, video.error) == ("completed", 100, None)
    assert (video.model, video.seconds, video.size) == ("shapes", "1.083", "64x64")
    assert video.completed_at is not None
    assert video.completed_at >= video.created_at


def test_its_file_plays(client: OpenAI, video: Video) -> None:
    data = client.videos.download_content(video.id).read()
    clip = decode_video(io.BytesIO(data), Mp4, 1 << 26)
    assert clip.frames_THWC.shape == (13, 64, 64, 3)
    assert clip.fps == 12


def test_its_file_comes_by_ranges_too(server: Server, client: OpenAI, video: Video) -> None:
    url = f"{server.url}/v1/videos/{video.id}/content"
    asked = urllib.request.Request(url, headers={"Range": "bytes=4-7"})
    with urllib.request.urlopen(asked) as answer:
        assert (answer.status, answer.read()) == (206, b"ftyp")


def test_it_is_listed_and_is_a_job_of_the_server(server: Server, client: OpenAI, video: Video) -> None:
    second = done(client, create(client, FEW | {"seed": 9}, seconds="0.4"))
    assert [each.id for each in client.videos.list(limit=1)][:2] == [second.id, video.id]
    assert get(f"{server.url}/api/jobs/{video.id}")["state"] == "succeeded"


def test_deleting_stops_the_work_and_leaves_others_alone(server: Server, client: OpenAI) -> None:
    running = create(client, MANY)
    waiting = create(client, FEW | {"seed": 8}, seconds="0.4")
    until(lambda: client.videos.retrieve(running.id).progress > 0)
    assert client.videos.retrieve(running.id).status == "in_progress"
    with pytest.raises(openai.ConflictError, match="is not done yet, it is in_progress"):
        client.videos.download_content(running.id)
    began_s = time.monotonic()
    assert client.videos.delete(running.id).deleted
    assert time.monotonic() - began_s < 10
    with pytest.raises(openai.NotFoundError):
        client.videos.retrieve(running.id)
    assert done(client, waiting).status == "completed"


def test_a_video_that_was_cancelled_says_so(server: Server, client: OpenAI) -> None:
    video = create(client, MANY | {"seed": 10})
    get(f"{server.url}/api/jobs/{video.id}/cancel", "POST")
    ended = done(client, video)
    assert ended.error is not None
    assert (ended.status, ended.error.code) == ("failed", "cancelled")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"model": "digits"}, "model"),
        ({"seconds": "12"}, "seconds"),
        ({"size": "70x70"}, "size"),
        ({"input_reference": ("a.png", b"x")}, "input_reference"),
    ],
)
def test_what_cannot_be_is_refused_by_name(client: OpenAI, given: dict[str, Any], field: str) -> None:
    with pytest.raises(openai.BadRequestError) as failed:
        create(client, FEW, **given)
    assert failed.value.param == field


def test_a_picture_is_no_video(server: Server, client: OpenAI) -> None:
    made = client.images.generate(model="digits", prompt="a two", extra_body={"seed": 2})
    assert made.model_extra is not None
    with pytest.raises(openai.NotFoundError, match="no video"):
        client.videos.retrieve(made.model_extra["job"])


def test_a_body_that_is_no_object_is_refused(server: Server) -> None:
    for data in (b"[1]", b"{", b"null"):
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{server.url}/v1/videos", data, headers)
        with pytest.raises(urllib.error.HTTPError) as failed:
            urllib.request.urlopen(asked)
        with failed.value as answer:
            assert answer.code == 400
            assert json.load(answer)["error"]["param"] == "body"

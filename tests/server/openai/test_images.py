"""Pictures over OpenAI's client: the command line's bytes, different items, links, failures of its types."""

from __future__ import annotations

import base64
import hashlib
import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import openai
import pytest
from openai import OpenAI
from openai.types import ImagesResponse

from restrike.cli.app import run
from serving import Server, until


def pictures(response: ImagesResponse) -> list[bytes]:
    return [base64.b64decode(each.b64_json or "") for each in response.data or ()]


def get(url: str, method: str = "GET") -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, method=method)) as answer:
        return json.load(answer)


def test_the_bytes_are_those_of_the_command_line(client: OpenAI, tmp_path: Path) -> None:
    made = client.images.generate(model="digits", prompt="a seven", n=2, size="8x8", extra_body={"seed": 5})
    target = tmp_path / "seven.png"
    words = (
        f"generate --card digits --seed 5 --count 2 --device cpu --native --no-preview -o {target}".split()
    )
    assert run([*words, "a seven"]) == 0
    here = [(tmp_path / f"seven-{item}.png").read_bytes() for item in range(2)]
    assert [hashlib.sha256(each).hexdigest() for each in pictures(made)] == [
        hashlib.sha256(each).hexdigest() for each in here
    ]


def test_n_pictures_are_different_and_can_be_made_again(client: OpenAI) -> None:
    made = client.images.generate(model="digits", prompt="a three", n=3)
    assert len({*pictures(made)}) == 3
    assert (made.size, made.output_format) == ("8x8", "png")
    assert made.model_extra is not None
    again = client.images.generate(
        model="digits", prompt="a three", n=3, extra_body={"seed": made.model_extra["seed"]}
    )
    assert pictures(again) == pictures(made)


def test_a_link_leads_to_the_picture(client: OpenAI) -> None:
    asked: dict[str, Any] = {"model": "digits", "prompt": "a two", "extra_body": {"seed": 2}}
    (inside,) = pictures(client.images.generate(**asked))
    data = client.images.generate(**asked, response_format="url").data
    assert data is not None
    assert data[0].url is not None
    with urllib.request.urlopen(data[0].url) as answer:
        assert answer.read() == inside


def test_what_is_not_served_is_told_with_what_is(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="nothing is at /v1/chat/completions; this server") as told:
        client.chat.completions.create(model="digits", messages=[{"role": "user", "content": "a seven"}])
    assert "/v1/images/generations" in told.value.message
    assert told.value.type == "invalid_request_error"


@pytest.mark.parametrize(("kind", "begins"), [("jpeg", b"\xff\xd8\xff"), ("webp", b"RIFF")])
def test_a_picture_comes_in_the_format_asked_for(client: OpenAI, kind: Any, begins: bytes) -> None:
    made = client.images.generate(model="digits", prompt="a two", output_format=kind, extra_body={"seed": 2})
    assert pictures(made)[0].startswith(begins)


@pytest.mark.parametrize(
    ("given", "kind", "field"),
    [
        ({"style": "vivid"}, openai.BadRequestError, "style"),
        ({"quality": "high"}, openai.BadRequestError, "quality"),
        ({"size": "9x9"}, openai.BadRequestError, "size"),
        ({"n": 11}, openai.BadRequestError, "n"),
        ({"model": "dighits"}, openai.NotFoundError, "model"),
        ({"model": "/etc"}, openai.BadRequestError, "model"),
        ({"extra_body": {"steps": 0}}, openai.BadRequestError, "steps"),
        ({"extra_body": {"seed": -1}}, openai.BadRequestError, "seed"),
    ],
)
def test_failures_arrive_as_the_clients_own_types(
    client: OpenAI, given: dict[str, Any], kind: type[openai.APIStatusError], field: str
) -> None:
    with pytest.raises(kind) as failed:
        client.images.generate(**{"model": "digits", "prompt": "a seven", **given})
    assert failed.value.param == field
    assert failed.value.type == "invalid_request_error"
    assert failed.value.response.headers["x-should-retry"] == "false"


def test_a_failure_names_its_field_once(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as failed:
        client.images.generate(model="digits", prompt="a seven", size="9x9")
    assert isinstance(failed.value.body, dict)
    assert failed.value.body["message"] == (
        "width 9: card 'digits' takes only 8; height 9: card 'digits' takes only 8"
    )


def test_a_body_that_is_no_json_is_told_how_to_be_sent(server: Server) -> None:
    with pytest.raises(HTTPError) as failed:
        urllib.request.urlopen(f"{server.url}/v1/images/generations", data=b'{"model": "digits"}')
    with failed.value as answer:
        assert "Content-Type: application/json" in json.load(answer)["error"]["message"]


def test_a_project_is_a_workspace(client: OpenAI) -> None:
    client.with_options(project="default").images.generate(model="digits", prompt="a seven")
    with pytest.raises(openai.NotFoundError, match="no workspace 'nowhere'"):
        client.with_options(project="nowhere").images.generate(model="digits", prompt="a seven")


def test_a_key_of_idempotency_makes_a_retry_the_same_job(client: OpenAI) -> None:
    asked: dict[str, Any] = {
        "model": "digits",
        "prompt": "a nine",
        "extra_headers": {"Idempotency-Key": "k-1"},
    }
    first, second = client.images.generate(**asked), client.images.generate(**asked)
    assert first.model_extra is not None
    assert second.model_extra is not None
    assert first.model_extra["job"] == second.model_extra["job"]
    assert pictures(first) == pictures(second)
    with pytest.raises(openai.ConflictError, match="was used for another job"):
        client.images.generate(**asked | {"prompt": "a four"})
    with pytest.raises(openai.BadRequestError, match="1 to 200 letters"):
        client.images.generate(**asked | {"extra_headers": {"Idempotency-Key": "k" * 201}})


def test_a_client_that_goes_away_cancels_its_pictures(client: OpenAI, server: Server) -> None:
    before = get(f"{server.url}/api/jobs?limit=1")["jobs"][0]["id"]
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=1.0).images.generate(
            model="digits", prompt="a six", n=10, extra_body={"steps": 1000}
        )
    newest = get(f"{server.url}/api/jobs?limit=1")["jobs"][0]["id"]
    assert newest != before
    until(lambda: get(f"{server.url}/api/jobs/{newest}")["state"] == "cancelled")


def test_two_clients_with_one_key_share_a_job_that_outlives_either(client: OpenAI, server: Server) -> None:
    asked: dict[str, Any] = {
        "model": "digits",
        "prompt": "a six",
        "extra_body": {"steps": 600, "seed": 66},
        "extra_headers": {"Idempotency-Key": "shared"},
    }
    with ThreadPoolExecutor(1) as pool:
        staying = pool.submit(client.images.generate, **asked)
        with pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=0.5).images.generate(**asked)
        stream = client.images.generate(**asked, stream=True)
        stream.close()
        made = staying.result()
    assert len(pictures(made)) == 1
    assert made.model_extra is not None
    job = get(f"{server.url}/api/jobs/{made.model_extra['job']}")
    assert (job["state"], job["cancel_requested"]) == ("succeeded", False)
    # It did go away while the job ran; without a key that cancels, as the test before shows.
    assert job["ended"] - job["created"] > 0.5


def test_an_edit_needs_a_card_that_takes_a_picture(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="card 'digits' takes no picture") as failed:
        client.images.edit(model="digits", prompt="a seven", image=("a.png", b"x", "image/png"))
    assert failed.value.param == "image"
    with pytest.raises(openai.BadRequestError) as failed:
        client.images.edit(model="digits", prompt="a seven", image=("a.png", b"x"), mask=("b.png", b"x"))
    assert failed.value.param == "mask"


def test_models_are_the_cards_that_are_here(client: OpenAI) -> None:
    assert {model.id for model in client.models.list()} == {"digits", "shapes"}
    assert client.models.retrieve("digits").object == "model"
    with pytest.raises(openai.NotFoundError, match="unknown card 'dighits'"):
        client.models.retrieve("dighits")

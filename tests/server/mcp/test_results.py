"""Results within a budget of bytes: whole, smaller, a strip of frames, a beginning; links always."""

from __future__ import annotations

import base64
import io
import json
import urllib.request
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from restrike.errors import Refused
from restrike.media import Mp4, encode
from restrike.server.mcp.excerpts import picture_within, sound_within, strip_within, text_within
from server.mcp.agent import Agent


def noise_THWC(count: int, side_px: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, (count, side_px, side_px, 3), np.uint8)


def test_links_come_first_and_lead_to_the_bytes(agent: Agent) -> None:
    found = agent.call("results", job=agent.made(seed=91, n=3))
    assert [each.type for each in found.result.content] == ["text", "image", "image", "image"]
    for file, shown in zip(found.tree["files"], found.result.content[1:], strict=True):
        with urllib.request.urlopen(file["url"]) as answer:
            assert base64.b64encode(answer.read()).decode() == shown.data  # type: ignore[union-attr]
        assert (file["shown"], file["type"]) == ("whole", "image/png")


def test_a_budget_is_kept(agent: Agent) -> None:
    job = agent.made(seed=91, n=3)
    for budget in (0, 1000, 2000, 10_000):
        found = agent.call("results", job=job, max_bytes=budget)
        contents = found.result.content[1:]
        assert sum(len(each.data) for each in contents) <= budget  # type: ignore[union-attr]
        assert len(contents) == sum(file["shown"] != "link" for file in found.tree["files"])
    assert len(contents) == 3  # the last budget holds all


def test_many_files_come_in_pages(agent: Agent) -> None:
    job = agent.made(seed=92, n=12)
    first = agent.call("results", job=job, max_bytes=0).tree
    second = agent.call("results", job=job, max_bytes=0, offset=first["next"]).tree
    assert (len(first["files"]), len(second["files"]), "next" in second) == (10, 2, False)


def test_a_job_that_made_nothing_says_why(agent: Agent) -> None:
    job = agent.begun(seed=93, steps=1000, n=10)
    agent.call("cancel", job=job)
    agent.call("wait", job=job, seconds=20)
    shown = agent.call("results", job=job).tree
    assert (shown["job"], shown["state"], shown["files"]) == (job, "cancelled", [])


def test_a_clip_is_shown_as_a_strip_of_frames(agent: Agent) -> None:
    job = agent.made(card="shapes", prompt="a red circle moving left", seed=5, steps=2, output="mp4")
    found = agent.call("results", job=job)
    (file,) = found.tree["files"]
    assert (file["type"], file["shown"]) == ("video/mp4", "frames 0, 5, 11, 16")
    strip = Image.open(io.BytesIO(base64.b64decode(found.result.content[1].data)))  # type: ignore[union-attr]
    assert strip.size == (256, 64)


def test_a_text_comes_as_far_as_it_fits(agent: Agent) -> None:
    text = {"task": "text.join", "arguments": {"parts": ["word"] * 50, "separator": " "}}
    work = {"workflow": {"name": "words", "steps": {"said": text}}}
    fingerprint = agent.call("plan", work=work).tree["fingerprint"]
    job = agent.call("run", work=work, acknowledge=fingerprint).tree["job"]
    assert agent.call("wait", job=job, seconds=50).tree["state"] == "succeeded"
    found = agent.call("results", job=job, max_bytes=40)
    assert found.tree["files"][0]["shown"] == "the first 40 bytes"
    assert found.result.content[1].text == "word " * 8  # type: ignore[union-attr]


def test_a_large_picture_is_made_smaller(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(noise_THWC(1, 900)[0]).save(path)
    whole = picture_within(path, 1 << 22)
    assert whole == (path.read_bytes(), "image/png", "whole")
    small = picture_within(path, 60_000)
    assert small is not None
    assert len(small[0]) <= 60_000
    assert small[1:] == ("image/jpeg", "made smaller")
    assert picture_within(path, 100) is None


def test_a_file_that_holds_no_picture_is_told_by_its_link_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"x" * 5000)
    with pytest.raises(Refused):
        picture_within(path, 1000)


def test_a_strip_spreads_its_frames_over_the_clip(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(encode(noise_THWC(9, 64), Mp4(), fps=8.0))
    strip = strip_within(path, 1 << 20)
    assert strip is not None
    assert strip[2] == "frames 0, 3, 5, 8"
    assert Image.open(io.BytesIO(strip[0])).size == (256, 64)


def test_a_sound_comes_as_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"\x01\x00" * 2 * 8000 * 3)
    excerpt = sound_within(path, 40_000)
    assert excerpt is not None
    assert len(excerpt[0]) <= 40_000
    assert excerpt[1] == "the first 1.2 s"
    with wave.open(io.BytesIO(excerpt[0])) as file:
        assert (file.getnchannels(), file.getframerate()) == (2, 8000)
    whole = sound_within(path, 1 << 20)
    assert whole is not None
    assert whole[1] == "whole"
    assert sound_within(path, 500) is None


def test_half_a_letter_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"a": "ä"}, ensure_ascii=False), encoding="utf-8")
    assert text_within(path, 8) == ('{"a": "', "the first 8 bytes")
    assert text_within(path, 100) == ('{"a": "ä"}', "whole")

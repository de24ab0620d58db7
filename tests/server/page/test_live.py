"""The page in a real browser on a real server: what runs is seen, what was made is found and made again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from server.page.browser import Browser, browsing, program
from serving import Server

READY = "document.getElementById('ready')?.textContent === 'ready'"
PROMPT = "a red circle moving down"
MADE = f"[...document.querySelectorAll('#ended li.succeeded')].filter(e => e.innerText.includes('{PROMPT}'))"
FIGURE = f"[...document.querySelectorAll('.gallery figure')].find((e) => e.innerText.includes('{PROMPT}'))"
WIDE = "document.documentElement.scrollWidth - innerWidth"
CROSSING = """(() => {
  const boxes = [...document.querySelectorAll('header > :not(.grow)')].map((e) => e.getBoundingClientRect());
  return boxes.some((a, i) => boxes.slice(i + 1).some((b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
})()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = program()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium is installed; the workflow of the checks brings one along")
        pytest.skip("no Chromium is installed (apt-get install chromium)")
    with browsing(found) as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Browser]:
    """The page, opened anew and connected; nothing may go wrong in it or be asked of anyone else."""
    browser.faults.clear()
    browser.asked.clear()
    browser.look(1280, 900)
    browser.open(f"{server.url}/")
    browser.until(READY)
    yield browser
    assert browser.faults == []
    # The browser's own buttons of a video are pictures that are in their address.
    elsewhere = [url for url in browser.asked if not url.startswith((f"{server.url}/", "data:"))]
    assert elsewhere == []


def submitted(server: Server, **body: Any) -> str:
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{server.url}/api/jobs", json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)["id"]


def ask_for(page: Browser, steps: int) -> None:
    fill = f"prompt.value = '{PROMPT}'; card.value = 'shapes'; seed.value = 7; steps.value = {steps}"
    page.value(
        f"(({{ prompt, card, seed, steps }}) => {{ {fill} }})(document.getElementById('make').elements)"
    )
    page.value("document.getElementById('make').requestSubmit()")


def test_a_job_is_made_watched_found_and_made_again(page: Browser) -> None:
    ask_for(page, steps=40)
    look = "[...document.querySelectorAll('.job .look')].some((e) => e.complete && e.naturalWidth > 0)"
    page.until(look)
    assert page.value("document.querySelector('.job').innerText").startswith(PROMPT)
    page.until("document.querySelector('#running').children.length === 0")
    page.until(f"{MADE}.length === 1")
    page.until(f"{FIGURE}?.querySelector('video')?.readyState > 0")

    page.value(f"{FIGURE}.click()")
    page.until("document.getElementById('shown-facts').children.length > 0")
    facts = page.value("document.getElementById('shown-facts').innerText")
    assert PROMPT in facts
    assert "seed\n7" in facts
    page.value("document.getElementById('again').click()")
    page.until("!document.getElementById('shown').open")
    page.until(f"{MADE}.length === 2")
    assert "1 reused" in page.value(f"{MADE}[0].innerText")


def test_what_ended_is_told_whole_and_the_gallery_is_not_pushed_away(page: Browser, server: Server) -> None:
    names = [
        submitted(server, generation={"card": "digits", "prompt": "a six", "seed": n, "steps": 1})
        for n in range(14)
    ]
    with urlopen(Request(f"{server.url}/api/assets/torn.png?replace=true", b"torn", method="PUT")):
        step = {"task": "picture.resize", "arguments": {"clip": "$asset.torn.png", "width": 9, "height": 9}}
    failed = submitted(server, workflow={"name": "small", "steps": {"small": step}})
    for name in (*names[3:], failed):
        page.until(f"document.querySelector('#ended [title^={name}]')")
    told = f"document.querySelector('#ended [title^={failed}] .told')"
    assert "it is none of PNG" in page.value(f"{told}.innerText")
    assert page.value(f"{told}.scrollWidth <= {told}.clientWidth")
    page.until("document.querySelector('#running').children.length === 0")
    page.until("document.querySelector('.gallery figcaption b')?.innerText === 'a six'")
    assert page.value("document.querySelector('.gallery').getBoundingClientRect().top") < 700
    page.value("document.querySelector('header a').click()")
    assert page.value("location.hash") == "#pictures"


def test_a_running_job_says_which_picture_it_makes(page: Browser, server: Server) -> None:
    work = {"card": "digits", "prompt": "a six", "steps": 1000, "n": 8}
    name = submitted(server, generation=work)
    page.until("/picture \\d of 8, \\d+ of 1000 steps/.test(document.querySelector('.job')?.innerText)")
    # Control: one that comes later is told it too, before the next step is.
    with urlopen(f"{server.url}/api/jobs/{name}") as answer:
        assert json.load(answer)["progress"]["pictures"] == 8
    page.value("document.querySelector('.job button').click()")
    page.until(f"document.querySelector('#ended [title^={name}]')")


def test_a_job_is_cancelled_where_it_is_seen(page: Browser) -> None:
    ask_for(page, steps=1000)
    page.until("document.querySelector('.job button')")
    page.value("document.querySelector('.job button').click()")
    page.until(f"document.querySelector('#ended li.cancelled')?.innerText.includes('{PROMPT}')")


def test_what_was_refused_says_why(page: Browser) -> None:
    page.value("document.getElementById('steps').removeAttribute('min')")
    ask_for(page, steps=0)
    page.until("document.getElementById('message').innerText.startsWith('steps')")
    (fault,) = page.faults  # The browser notes what the server answered.
    assert "422" in fault
    page.faults.clear()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width_px", [390, 768, 1280])
def test_nothing_sticks_out_at_any_width(page: Browser, server: Server, width_px: int, dark: bool) -> None:
    name = "a-name-that-goes-on-and-on-and-on-without-an-end"
    with urlopen(Request(f"{server.url}/api/assets/torn.png?replace=true", b"torn", method="PUT")):
        step = {"task": "picture.resize", "arguments": {"clip": "$asset.torn.png", "width": 9, "height": 9}}
    long = submitted(server, workflow={"name": name, "steps": {"small": step}})
    page.look(width_px, 900, dark=dark)
    page.until(f"document.querySelector('#ended [title^={long}]')")
    assert page.value(WIDE) <= 0
    assert page.value(CROSSING) is False
    page.value("document.querySelector('.gallery figure').click()")
    page.until("document.getElementById('shown-facts').children.length > 0")
    box = page.value("JSON.stringify(document.getElementById('shown').getBoundingClientRect())")
    shown = json.loads(box)
    assert 0 <= shown["left"] < shown["right"] <= width_px
    about = "document.querySelector('#shown .about')"
    assert page.value(f"{about}.scrollWidth <= {about}.clientWidth")

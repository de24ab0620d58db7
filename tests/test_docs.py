"""The documentation leads somewhere, and what it says can be run does run.

A block is run when its first line says so: ```python run, or ```bash run. With `run server` it is run against
a real server, whose address takes the place of the usual one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from restrike.client.client import URL

PROJECT = Path(__file__).parents[1]
PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)|(?:src|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block that says that it can be run."""

    page: str
    line: int
    language: str
    text: str
    asks_a_server: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def prose(text: str) -> str:
    """The page without its code."""
    return re.sub(r"`[^`\n]*`", "", BLOCK.sub("", text))


def anchors(text: str) -> set[str]:
    """The names that headings get in a rendered page."""
    titles = HEADING.findall(BLOCK.sub("", text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken(page: Path, text: str) -> Iterator[str]:
    for match in LINK.finditer(prose(text)):
        target = match[1] or match[2]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve()
        if path and not file.exists():
            yield f"{page.name}: no file for {target}"
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8") if path else text):
            yield f"{page.name}: no heading for {target}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            if match[2].split() in (["run"], ["run", "server"]):
                line = text.count("\n", 0, match.start()) + 1
                where = str(page.relative_to(PROJECT))
                yield Block(where, line, match[1], match[3], "server" in match[2])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert not list(broken(page, page.read_text(encoding="utf-8")))


def test_a_link_that_leads_nowhere_would_be_seen(tmp_path: Path) -> None:
    text = "# A title\n[one](gone.md) ![two](gone.png) [three](#no-title) [four](#a-title) `[five](gone)`\n"
    assert len(list(broken(tmp_path / "page.md", text))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("block", list(blocks()), ids=str)
def test_a_block_that_says_so_runs(block: Block, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("server").url if block.asks_a_server else URL
    commands = {"python": [sys.executable, "-c"], "bash": ["bash", "-euo", "pipefail", "-c"]}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*commands[block.language], block.text.replace(URL, url)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "RESTRIKE_SERVER": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

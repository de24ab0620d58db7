"""Takes the server's own folders out of what it answers; what a client wrote itself stays as it is."""

from __future__ import annotations

import re
import site
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

# A folder is one only where its name begins and ends there: `/tmp` is no part of `/tmpfoo` or `/a/tmp`.
_BEFORE, _AFTER = r"(?<![\w.-])", r"(?![\w-]|\.\w)"


class Redaction:
    """Replaces the beginnings of paths by words: `data`, `store`, `home`."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        """`folders` are the server's own, by the word that stands for each."""
        named = [(path, word) for word, folder in folders.items() for path in _spellings(folder)]
        named += [(path, "home") for path in _spellings(Path.home())]
        named += [(path, "here") for path in _spellings(Path.cwd())]
        named += [(path, "temporary") for path in _spellings(Path(tempfile.gettempdir()))]
        for folder in {*site.getsitepackages(), sys.prefix, sys.base_prefix, str(_PACKAGE)}:
            named += [(path, "python") for path in _spellings(Path(folder))]
        # Of two words for one folder the first that was given stands.
        self._words = {path: word for path, word in reversed(named) if len(path) > 1}
        # A longer one first: the data folder may lie in the home folder.
        paths = sorted(self._words, key=len, reverse=True)
        self._folder = re.compile(f"{_BEFORE}(?:{'|'.join(map(re.escape, paths))}){_AFTER}")

    def text(self, text: str) -> str:
        """The text without the folders."""
        return self._folder.sub(lambda found: self._words[found[0]], text)

    def shown(self, tree: Any) -> Any:
        """Plain values without the folders."""
        if isinstance(tree, str):
            return self.text(tree)
        if isinstance(tree, Mapping):
            return {self.shown(name): self.shown(value) for name, value in tree.items()}
        if isinstance(tree, list | tuple):
            return [self.shown(value) for value in tree]
        return tree


_PACKAGE = Path(__file__).parents[2]


def _spellings(folder: Path) -> Iterable[str]:
    return dict.fromkeys((str(folder), str(folder.absolute()), str(folder.resolve())))

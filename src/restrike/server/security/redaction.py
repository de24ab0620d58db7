"""Takes the server's own folders out of what it answers; what a client wrote itself stays as it is."""

from __future__ import annotations

import site
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


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
        # A longer one first: the data folder may lie in the home folder.
        self._named = sorted(
            ((path, word) for path, word in named if len(path) > 1), key=lambda n: -len(n[0])
        )

    def text(self, text: str) -> str:
        """The text without the folders."""
        for path, word in self._named:
            if path in text:
                text = text.replace(path, word)
        return text

    def shown(self, tree: Any) -> Any:
        """Plain values without the folders."""
        if isinstance(tree, str):
            return self.text(tree)
        if isinstance(tree, Mapping):
            return {name: self.shown(value) for name, value in tree.items()}
        if isinstance(tree, list | tuple):
            return [self.shown(value) for value in tree]
        return tree


_PACKAGE = Path(__file__).parents[2]


def _spellings(folder: Path) -> Iterable[str]:
    return dict.fromkeys((str(folder), str(folder.absolute()), str(folder.resolve())))

"""The files that a user's own Python file is made of: what it imports that is not installed.

It reads import statements; what is found in other ways has to be declared (`depends`).
"""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec, resolve_name
from itertools import accumulate
from pathlib import Path

from restrike.errors import Refused
from restrike.keys.files import file_digest
from restrike.keys.values import Digest

_SEEN_AS = "__restrike_seen_as__"


def local_sources(path: Path, package: str = "") -> tuple[Digest, ...]:
    """The digests of the files of all modules that a file imports, and of those that they import.

    `package` is the one that the file is in, if any.

    Raises:
        Refused: one was edited since this process imported it.
    """
    found: dict[str, Path] = {}
    left = [(path, package)]
    while left:
        for name in _imported_by(*left.pop()):
            file = None if name in found else _local_file(name)
            if file is not None:
                found[name] = file
                left.append((file, name if file.name == "__init__.py" else name.rpartition(".")[0]))
    return tuple(_digest(name, found[name]) for name in sorted(found))


def _imported_by(path: Path, package: str) -> Iterator[str]:
    """The names of the modules in the import statements of a file, and of the packages that they are in."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):
                module = resolve_name("." * node.level + (node.module or ""), package)
                names = [f"{module}.{alias.name}" for alias in node.names]
        for name in names:
            yield from accumulate(name.split("."), "{}.{}".format)


def _local_file(name: str) -> Path | None:
    if name.partition(".")[0] == __name__.partition(".")[0]:
        return None
    module = sys.modules.get(name)
    file = _file_of(name) if module is None else getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.endswith(".py"):
        return None
    path = Path(file)
    packaged = {"site-packages", "dist-packages"} & {*path.parts}
    return None if packaged or any(path.is_relative_to(folder) for folder in _installed()) else path


def _file_of(name: str) -> str | None:
    """The file of a module that was not imported, and is not now: `find_spec` would import its package."""
    package, _, own = name.rpartition(".")
    if not package:
        with suppress(ImportError, ValueError):
            spec = find_spec(name)
            return spec and spec.origin
        return None
    above = _local_file(package)
    if above is None or above.name != "__init__.py":
        return None
    places = (above.with_name(f"{own}.py"), above.parent / own / "__init__.py")
    return next((str(place) for place in places if place.is_file()), None)


@cache
def _installed() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple(Path(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def _digest(name: str, path: Path) -> Digest:
    found = file_digest(path)
    module = sys.modules.get(name)
    # What was imported stays as it was for the life of the process, whatever the file says later.
    if module is not None and vars(module).setdefault(_SEEN_AS, found) != found:
        raise Refused(f"'{path}' changed since it was imported; start again to use it")
    return found

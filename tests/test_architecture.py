"""The conventions of the code base that a person would otherwise have to remember."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import restrike

PACKAGE = Path(restrike.__file__).parent
PROJECT = Path(__file__).parents[1]
SOURCES = sorted(PACKAGE.rglob("*.py"))
LINES_HARD, LINES_SOFT = 450, 400
FUNCTION_HARD, FUNCTION_SOFT = 60, 40
# Imported by `restrike --help`, a listing of cards or a look into a file: no torch there.
LIGHT = (
    *("errors.py", "__main__.py", "keys", "store", "media", "cards", "cli", "workflow", "models/*/card.py"),
    *("mint/cell", "mint/store", "endpoints", "client"),
)
HEAVY = ("torch", "diffusers", "transformers", "huggingface_hub", "scipy", "sklearn")


def name_of(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


# Layers.


LINT = """
import sys
from importlinter.cli import lint_imports
sys.path.insert(0, "src")
sys.exit(lint_imports("pyproject.toml", no_cache=True, no_logo=True))
"""


def linted(folder: Path) -> subprocess.CompletedProcess[str]:
    """The result of the contracts in a project's pyproject.toml, on the code in that folder."""
    command = [sys.executable, "-c", LINT]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_each_package_imports_only_those_below_it() -> None:
    done = linted(PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_import_from_above_would_be_seen(tmp_path: Path) -> None:
    for name in ("keys", "engine"):
        (tmp_path / "src" / "upside" / name).mkdir(parents=True)
        (tmp_path / "src" / "upside" / name / "__init__.py").touch()
    (tmp_path / "src" / "upside" / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_package = "upside"\n'
        '[[tool.importlinter.contracts]]\nname = "layers"\ntype = "layers"\ncontainers = ["upside"]\n'
        'layers = ["engine", "keys"]\n'
    )
    assert linted(tmp_path).returncode == 0
    (tmp_path / "src" / "upside" / "keys" / "__init__.py").write_text("import upside.engine\n")
    assert linted(tmp_path).returncode == 1


def test_every_package_has_its_layer() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = [
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    listed = {name.strip() for layer in layers for name in layer.split("|")}
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert parts - {"__init__", "__main__"} == listed


# Light imports.


def light_sources() -> list[Path]:
    found = [path for pattern in LIGHT for path in PACKAGE.glob(pattern)]
    return sorted(file for path in found for file in ([path] if path.is_file() else path.rglob("*.py")))


def imported_at_once(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """The modules that importing this body imports: not those inside functions or for type checkers."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.lineno
        elif isinstance(node, ast.If):
            checking = "TYPE_CHECKING" in ast.unparse(node.test)
            yield from imported_at_once(([] if checking else node.body) + node.orelse)
        elif isinstance(node, ast.Try | ast.With | ast.ClassDef):
            yield from imported_at_once(node.body)


def test_light_modules_import_nothing_heavy() -> None:
    heavy = [
        f"{name_of(file)}:{line} imports {name} at once; import it inside the function that uses it"
        for file in light_sources()
        for name, line in imported_at_once(tree_of(file).body)
        if name.split(".")[0] in HEAVY
    ]
    assert not heavy


def test_a_heavy_import_would_be_seen() -> None:
    seen = imported_at_once(ast.parse("try:\n    import torch.nn\nexcept ImportError: pass").body)
    assert list(seen) == [("torch.nn", 2)]
    unseen = "if TYPE_CHECKING:\n    import torch\ndef load():\n    import torch\n"
    assert not list(imported_at_once(ast.parse(unseen).body))


LOAD = f"""
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    heavy = [each for each in {HEAVY!r} if each in sys.modules]
    assert not heavy, f"{{name}} loads {{heavy}}"
"""


def test_importing_the_light_modules_loads_nothing_heavy() -> None:
    files = [file.relative_to(PACKAGE.parent).with_suffix("") for file in light_sources()]
    names = [".".join(file.parts).removesuffix(".__init__") for file in files if file.stem != "__main__"]
    # A verb imports what it runs on when it is called; what all verbs share is loaded for `--help`.
    started = [name for name in names if not name.startswith("restrike.cli.")]
    command = [sys.executable, "-c", LOAD, *started, "restrike.cli.app"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Sizes.


def functions(file: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{name_of(file)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def over(sizes: list[tuple[str, int]], limit: int) -> list[str]:
    return [f"{name}: {lines} lines" for name, lines in sizes if lines > limit]


def test_files_and_functions_stay_small() -> None:
    files = [(name_of(file), len(file.read_text(encoding="utf-8").splitlines())) for file in SOURCES]
    parts = [part for file in SOURCES for part in functions(file)]
    for line in over(files, LINES_SOFT) + over(parts, FUNCTION_SOFT):
        print("look at", line)  # noqa: T201
    assert not over(files, LINES_HARD) + over(parts, FUNCTION_HARD)


# Openings and entry points.


def test_a_module_says_what_it_is() -> None:
    trees = {name_of(file): tree_of(file) for file in SOURCES}
    assert not [name for name, tree in trees.items() if tree.body and not ast.get_docstring(tree)]


def test_every_entry_point_of_this_package_exists() -> None:
    ours = [
        point
        for group in ("restrike.cards", "restrike.extensions", "console_scripts")
        for point in entry_points(group=group)
        if point.value.startswith("restrike.")
    ]
    assert {point.group for point in ours} >= {"restrike.cards", "console_scripts"}
    for point in ours:
        assert point.load() is not None

"""The names that the installed diffusers has, read from its sources: nothing of it is imported.

An import of diffusers takes seconds and brings torch; a check of a workflow has neither time nor need.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from restrike.errors import Refused

EXTRA = "pip install 'restrike[diffusers]'"
QUANTIZATIONS = {
    "BitsAndBytesConfig": "bitsandbytes",
    "QuantoConfig": "optimum.quanto",
    "TorchAoConfig": "torchao",
}
"""The quantization configs that work on a checkpoint as published, and the module that each needs."""


def is_installed(module: str) -> bool:
    """Whether a module can be imported; it is not."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def pipelines() -> tuple[str, ...]:
    """The names of the pipeline classes."""
    # Those that choose a class by the checkpoint are none themselves.
    no_classes = ("Auto", "Onnx")
    return tuple(
        name
        for name in _exported("pipelines")
        if "Pipeline" in name and not name.startswith(no_classes) and not name.endswith("Output")
    )


def schedulers() -> tuple[str, ...]:
    """The names of the scheduler classes."""
    return tuple(name for name in _exported("schedulers") if name.endswith("Scheduler"))


@cache
def attention_backends() -> tuple[str, ...]:
    """The names of the attention backends, whether or not what they need is installed."""
    body = _tree("models/attention_dispatch.py").body
    named = (node for node in body if isinstance(node, ast.ClassDef) and node.name == "AttentionBackendName")
    values = (part.value for node in named for part in node.body if isinstance(part, ast.Assign))
    return tuple(sorted(v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)))


@cache
def _exported(section: str) -> tuple[str, ...]:
    """The names that diffusers adds to a section of its `_import_structure`, sorted."""
    return tuple(
        sorted(
            {
                text.value
                for call in ast.walk(_tree("__init__.py"))
                if isinstance(call, ast.Call) and _adds_to(call.func) == section
                for text in ast.walk(call.args[0])
                if isinstance(text, ast.Constant) and isinstance(text.value, str)
            }
        )
    )


def _adds_to(function: ast.expr) -> str | None:
    """The section of `_import_structure[section].extend` or `.append`."""
    if not (isinstance(function, ast.Attribute) and function.attr in ("extend", "append")):
        return None
    entry = function.value
    if isinstance(entry, ast.Subscript) and isinstance(entry.slice, ast.Constant):
        return str(entry.slice.value)
    return None


@cache
def _tree(file: str) -> ast.Module:
    spec = find_spec("diffusers")
    if spec is None or spec.origin is None:
        raise Refused(f"a pipeline needs an extra: {EXTRA}")
    return ast.parse((Path(spec.origin).parent / file).read_text(encoding="utf-8"))

"""The compiler's options: the recipe's own, and those that a card adds. One without effect is refused."""

from __future__ import annotations

from typing import Any

from restrike.cards.compile import Option
from restrike.mint.cell import capability
from restrike.mint.cell.facts import Recipe, Target
from restrike.mint.refusals import DroppedOption, Subject

Value = bool | int | float | str
# What the package recipe does not read: it makes no cache entries, and replays no graphs of its own.
_UNREAD_BY_AOT = (
    "fx_graph_cache",
    "autotune_local_cache",
    "bundle_triton_into_fx_graph_cache",
    "cpp_wrapper",
)
_OF_DEVICE = {"cpp": "cpu", "triton": "cuda", "cuda": "cuda", "cutlass": "cuda", "rocm": "hip", "xpu": "xpu"}


def options_of(
    recipe: Recipe, target: Target, declared: tuple[Option, ...], subject: Subject
) -> dict[str, Value]:
    """All options of one compilation by torch's dotted names; they are part of the cell's key.

    Raises:
        DroppedOption: the compiler knows no such option, would not read it, or it is the recipe's own.
    """
    pinned = _pinned(recipe, target)
    for name, value in declared:
        reason = _without_effect(recipe, target, name, value, pinned)
        if reason is not None:
            raise DroppedOption(
                subject, f"option {name}={value!r} {reason}", "take it out of the card's compile declaration"
            )
    return {**pinned, **dict(declared)}


def _pinned(recipe: Recipe, target: Target) -> dict[str, Value]:
    _, level = capability.level(target.machine, target.cpu)
    shared: dict[str, Value] = {
        # One cell serves machines of any number of cores.
        "cpp.dynamic_threads": True,
        "cpp.march": level.march,
        # Weights are bound, never folded: another checkpoint must not get this one's values.
        "freezing": False,
        "joint_graph_constant_folding": False,
    }
    if recipe == "dynamo":
        return shared
    return {
        **shared,
        # A tensor of a few elements is else written into the kernels as numbers.
        "always_keep_tensor_constants": True,
        "aot_inductor.package_constants_in_so": False,
        "aot_inductor.use_runtime_constant_folding": False,
    }


def _without_effect(
    recipe: Recipe, target: Target, name: str, value: Value, pinned: dict[str, Value]
) -> str | None:
    from torch._inductor import config

    known: dict[str, Any] = config.get_config_copy()  # pyright: ignore[reportAttributeAccessIssue]
    if name in pinned:
        return f"is the recipe's own, {pinned[name]!r}"
    if name not in known:
        return "is unknown to the compiler"
    if known[name] is not None and not _same_kind(known[name], value):
        return f"is of another kind than the compiler's {known[name]!r}"
    device = _OF_DEVICE.get(name.partition(".")[0])
    if device is not None and device != target.kind:
        return f"is read for {device} alone, the target is {target.kind}"
    if recipe == "aot" and (name in _UNREAD_BY_AOT or "cudagraph" in name):
        return "is not read when a package is made"
    return None


def _same_kind(default: object, value: object) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, int | float):
        return isinstance(value, int | float)
    return isinstance(value, type(default))

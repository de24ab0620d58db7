"""Traces a call into one graph without its weights, and writes the graph as text that decides a cell's key.

The text is the same in every process, folder and for every checkpoint of one architecture: it holds what is
computed and what constants are needed, and neither values nor the names of models, files or variables.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind

from restrike.errors import Shortfall
from restrike.keys import digest
from restrike.mint.cell.facts import Ingress, TensorSpec, bounds
from restrike.mint.refusals import MintRefused, NarrowedRange, NotExportable, Subject
from restrike.mint.shortfalls import placed
from restrike.mint.warm import Observed
from restrike.mint.wrapped import WrappedCall, shadow

EPOCH = "1"
"""What the text means; bumped by hand when a graph is written in another way."""

_ONE_LINE = 300


def trace(component: nn.Module, seen: Observed, subject: Subject) -> ExportedProgram:
    """The call as one graph, for all sizes that the shape class declares; its weights are a shadow.

    Raises:
        NotExportable: the call branches on data, draws random numbers, or makes constants of its own.
        NarrowedRange: the graph does not hold for all declared sizes.
        Shortfall: memory ran out.
    """
    names = tuple(seen.inputs)
    module = WrappedCall(shadow(component), seen.call, names)
    low, high = seen.shape.batches
    inputs = seen.probe(high if low < high else low)
    try:
        with torch.no_grad():
            program = torch.export.export(
                module, tuple(inputs.values()), dynamic_shapes=_dynamic(seen.ingress), strict=False
            )
    except Exception as error:
        raise _unexported(seen, subject, error) from error
    _admit(program, seen, subject)
    check_ranges(program, seen.ingress, subject)
    return program


def graph_digest(program: ExportedProgram) -> str:
    """The digest of the canonical text, 64 hexadecimal digits."""
    return str(digest("graph", EPOCH, canonical_text(program)))


def canonical_text(program: ExportedProgram) -> str:
    """The constants, the inputs, and one line an operation, with ordinals for all names."""
    writer = _Writer()
    return "\n".join([*_placeholders(program, writer), *writer.operations(program.graph_module)])


def check_ranges(program: ExportedProgram, ingress: Ingress, subject: Subject) -> None:
    """Compare what the graph's guards allow with what was declared.

    Raises:
        NarrowedRange: naming the tensor, its axis, the declared range and what is left of it.
    """
    for spec, value in zip(ingress.tensors, _user_inputs(program), strict=True):
        for axis, (size, traced) in enumerate(zip(spec.shape, value.shape, strict=True)):
            low, high = bounds(size)
            left = _left(program, traced, low, high)
            if left != (low, high):
                raise _narrowed(subject, spec, axis, (low, high), left)


def _left(program: ExportedProgram, traced: Any, low: int, high: int) -> tuple[int, int]:
    """The sizes between `low` and `high` for which a traced axis holds; none is (0, -1)."""
    if isinstance(traced, int):
        return (traced, traced) if low <= traced <= high else (0, -1)
    expression = traced.node.expr
    environment = traced.node.shape_env
    allowed = [size for size in range(low, high + 1) if _holds(program, environment, expression, size)]
    return (allowed[0], allowed[-1]) if len(allowed) == high - low + 1 else _widest(allowed)


def _widest(allowed: list[int]) -> tuple[int, int]:
    return (allowed[0], allowed[-1]) if allowed else (0, -1)


def _holds(program: ExportedProgram, environment: Any, symbol: Any, size: int) -> bool:
    """Whether the symbol may have this size: in its range, and against no guard that speaks of it alone."""
    allowed = program.range_constraints.get(symbol)
    if allowed is not None and not (allowed.lower <= size <= allowed.upper):
        return False
    alone = (guard.expr for guard in environment.guards if guard.expr.free_symbols == {symbol})
    return all(bool(expression.subs({symbol: size})) for expression in alone)


def _narrowed(
    subject: Subject, spec: TensorSpec, axis: int, declared: tuple[int, int], left: tuple[int, int]
) -> NarrowedRange:
    kept = f"only {left[0]} to {left[1]}" if left[0] <= left[1] else "none of it"
    return NarrowedRange(
        subject,
        f"axis {axis} of '{spec.name}' is declared {declared[0]} to {declared[1]}, "
        f"the graph holds for {kept}",
        "declare that range, and the rest as shape classes of their own",
    )


def _dynamic(ingress: Ingress) -> tuple[tuple[dict[int, Any] | None, ...]]:
    """What `torch.export` is told of the axes that are ranges: equal ranges move together."""
    dims: dict[tuple[int, int], Any] = {}

    def axis(size: Any) -> Any:
        low, high = bounds(size)
        return dims.setdefault((low, high), Dim(f"batch_{low}_{high}", min=low, max=high))

    found = tuple(
        {index: axis(size) for index, size in enumerate(spec.shape) if not isinstance(size, int)} or None
        for spec in ingress.tensors
    )
    # One argument of `forward`: its `*tensors`.
    return (found,)


def _unexported(seen: Observed, subject: Subject, error: Exception) -> Exception:
    typed = placed(error)
    if isinstance(typed, Shortfall | MintRefused):
        return typed
    text = " ".join(str(error).split())
    low, high = seen.shape.batches
    if low < high and "onstraint" in type(error).__name__ + text:
        return NarrowedRange(
            subject,
            f"'{seen.name}' does not hold for all of its declared batch {low} to {high} ({text[:_ONE_LINE]})",
            "declare a smaller range, and the rest as shape classes of their own",
        )
    return NotExportable(
        subject,
        f"'{seen.name}' cannot be written down as one graph ({type(error).__name__}: {text[:_ONE_LINE]})",
        "leave this shape class out, or let its forward compute with tensors alone",
    )


def _admit(program: ExportedProgram, seen: Observed, subject: Subject) -> None:
    """Refuse what a graph can hold and a cell must not: drawing, and constants that nothing can bind."""
    for node in program.graph.nodes:
        if _draws(node):
            raise NotExportable(
                subject,
                f"'{seen.name}' draws random numbers within a step ({node.target})",
                "let the loop draw them and hand them in as a tensor",
            )
    if program.constants and (literal := next(iter(_literals(program)), None)):
        raise NotExportable(
            subject,
            f"'{seen.name}' makes a tensor of its own from Python values ({literal})",
            "register it as a buffer, so that it can be bound like a weight",
        )


def _draws(node: Any) -> bool:
    """Whether an operation draws random numbers; one that could drop elements and drops none does not."""
    operation = node.target
    if torch.Tag.nondeterministic_seeded not in getattr(operation, "tags", ()):
        return False
    names = [argument.name for argument in operation._schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    if "dropout_p" in names:
        return bool(given.get("dropout_p", 0.0))
    return given.get("train", True) is not False


def _literals(program: ExportedProgram) -> Iterator[str]:
    signature = program.graph_signature
    yield from signature.inputs_to_lifted_tensor_constants.values()
    yield from signature.inputs_to_lifted_custom_objs.values()


def _user_inputs(program: ExportedProgram) -> list[Tensor]:
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    return [nodes[name].meta["val"] for name in program.graph_signature.user_inputs if name in nodes]


def _placeholders(program: ExportedProgram, writer: _Writer) -> Iterator[str]:
    kinds = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        spec = kinds[node.name]
        number = writer.number(node)
        what = "input" if spec.kind is InputKind.USER_INPUT else f"{spec.kind.name.lower()} {spec.target}"
        yield f"%{number} = {what} {writer.tensor(node.meta['val'])}"


@dataclass
class _Writer:
    """Numbers nodes and symbols in the order in which they appear."""

    nodes: dict[Any, int] = field(default_factory=dict)
    symbols: dict[str, str] = field(default_factory=dict)

    def number(self, node: Any) -> int:
        return self.nodes.setdefault(node, len(self.nodes))

    def operations(self, module: Any) -> Iterator[str]:
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self.number(node)
            elif node.op == "get_attr":
                yield from self._attribute(module, node)
            elif node.op == "output":
                yield f"return {self.value(node.args)}"
            else:
                named = ", ".join(f"{key}={self.value(value)}" for key, value in sorted(node.kwargs.items()))
                call = f"{self._operation(node.target)}({self.value(node.args)}; {named})"
                yield f"%{self.number(node)} = {call}"

    def _attribute(self, module: Any, node: Any) -> Iterator[str]:
        """A graph within the graph, written in its place."""
        inner = getattr(module, node.target)
        yield f"%{self.number(node)} = graph"
        yield from (f"  {line}" for line in self.operations(inner))

    def _operation(self, target: Any) -> str:
        if isinstance(target, torch._ops.OpOverload | torch._ops.HigherOrderOperator):
            return str(target)
        if getattr(operator, getattr(target, "__name__", ""), None) is target:
            return f"operator.{target.__name__}"
        return f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', type(target).__name__)}"

    def tensor(self, value: Any) -> str:
        if not isinstance(value, Tensor):
            return self.value(value)
        dtype = str(value.dtype).removeprefix("torch.")
        sizes, strides = self.value(list(value.shape)), self.value(list(value.stride()))
        return f"{dtype} {value.device.type} {sizes} strides {strides}"

    def value(self, value: Any) -> str:
        """An argument: what it is and not where it came from."""
        if isinstance(value, torch.fx.Node):
            return f"%{self.number(value)}"
        if isinstance(value, list | tuple):
            return f"[{', '.join(self.value(each) for each in value)}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{key}: {self.value(each)}' for key, each in sorted(value.items()))}}}"
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return self._symbolic(value)
        if isinstance(value, torch.device):
            return value.type
        return repr(value)

    def _symbolic(self, value: Any) -> str:
        expression = value.node.expr
        for symbol in sorted(expression.free_symbols, key=str):
            self.symbols.setdefault(str(symbol), f"s{len(self.symbols)}")
        return str(expression.subs({symbol: self.symbols[str(symbol)] for symbol in expression.free_symbols}))

"""Makes a verb of a dataclass of options and the function that takes it.

The options of a verb are declared once, as fields; the function sees them as one frozen value.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import typer

from restrike.cli.help import Command, Group
from restrike.errors import Cancelled

Options = TypeVar("Options")


def add(app: typer.Typer, name: str, options: type[Options], run: Callable[[Options], None]) -> None:
    """Register `run` under `name`, with an option or argument for each field of `options`.

    An interrupt that the verb does not handle itself ends it as cancelled.
    """
    hints = get_type_hints(options, include_extras=True)

    def call(**given: Any) -> None:
        try:
            run(options(**given))
        except KeyboardInterrupt as error:
            raise Cancelled("interrupted") from error

    call.__doc__ = run.__doc__
    call.__annotations__ = hints
    call.__signature__ = inspect.Signature(  # pyright: ignore[reportFunctionMemberAccess]
        [_parameter(part, hints[part.name]) for part in dataclasses.fields(options)]  # pyright: ignore[reportArgumentType]
    )
    app.command(name, cls=Command)(call)


def group(title: str) -> typer.Typer:
    """A verb that has verbs of its own; by itself it prints its help."""
    found = typer.Typer(cls=Group, help=title, invoke_without_command=True)

    @found.callback()
    def alone(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    alone.__doc__ = title
    return found


def _parameter(part: dataclasses.Field[Any], hint: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty
    if part.default is not dataclasses.MISSING:
        default = part.default
    elif part.default_factory is not dataclasses.MISSING:
        default = part.default_factory()
    return inspect.Parameter(part.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)

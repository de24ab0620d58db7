"""How a failure leaves the program: one line on stderr, with --json one object on stdout, an exit code.

The class of the error decides the code (`errors.rule_of`); the text of the message decides nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import typer

from restrike.cli.other_words import option_for
from restrike.cli.streams import silence_stdout
from restrike.cli.style import styled
from restrike.errors import Refused, RestrikeError, nearest, rule_of, typed

# typer carries its own click, or uses the installed one, by version; BadParameter is found in both.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class Unfinished(Exception):
    """An error after something was made or found: with --json it is told in the same object."""

    def __init__(self, error: RestrikeError, found: Mapping[str, Any]) -> None:
        super().__init__(error.message)
        self.error = error
        self.found = found


def settle(error: BaseException, *, as_json: bool, traceback: bool) -> int:
    """Tell the user and return the exit code."""
    failure = _failure(error)
    if traceback:
        import traceback as tracebacks

        tracebacks.print_exception(error)
    if as_json:
        found = error.found if isinstance(error, Unfinished) else {}
        _print(json.dumps({"error": described(failure), **found}, indent=2))
    tell(failure)
    return rule_of(failure).exit_code


def _print(text: str) -> None:
    try:
        typer.echo(text)
        sys.stdout.flush()
    except OSError:
        # Nobody can read it there: the reader has gone, or the disk is full. The line on stderr still comes.
        silence_stdout()


def tell(failure: RestrikeError) -> None:
    """One line on stderr, or one for each finding."""
    for text in map(str, failure.findings or (failure.message,)):
        line = " ".join(text.split())
        typer.echo(f"{styled('restrike:', 'red', stream=sys.stderr)} {line}", err=True)


def described(error: RestrikeError) -> dict[str, Any]:
    """An error as a program reads it."""
    return {
        "type": type(error).__name__,
        "message": error.message,
        "exit_code": rule_of(error).exit_code,
        **({"findings": [asdict(finding) for finding in error.findings]} if error.findings else {}),
    }


def _misused(error: Any) -> str:
    """What click found wrong with the words of a command."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if not hasattr(error, "possibilities") or option is None or context is None:
        message = error.format_message().rstrip(".")
        return f"{message[:1].lower()}{message[1:]}; see --help"
    taken = [name for part in context.command.get_params(context) for name in part.opts]
    said = option_for(option, taken)
    if said:
        return f"there is no {option}; say {said}"
    near = nearest(option, (name for name in taken if name.startswith("-")))
    return f"there is no {option}; {f'did you mean {near}? ' if near else ''}--help shows all"


def _failure(error: BaseException) -> RestrikeError:
    if isinstance(error, Unfinished):
        return error.error
    if isinstance(error, UsageError):
        return Refused(_misused(error))
    if isinstance(error, typer.Abort):
        return typed(KeyboardInterrupt())
    return typed(error)

"""Puts the verbs together and runs one of them; every failure leaves through `failures`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from typer.main import get_command

from restrike.cli import (
    cancel,
    cards,
    cells,
    doctor,
    endpoints,
    explain,
    generate,
    inspect,
    jobs,
    kernels,
    keys,
    logs,
    mcp,
    memory,
    mint,
    move,
    plan,
    queue,
    rerun,
    runs,
    serve,
    store,
    submit,
    tokens,
    validate,
    wait,
)
from restrike.cli import run as run_verb
from restrike.cli.failures import settle
from restrike.cli.help import Group
from restrike.cli.streams import silence_stdout

app = typer.Typer(
    cls=Group,
    name="restrike",
    help="Images and video from a prompt, on this machine.",
    epilog='Try: restrike generate "a red circle moving left"',
    no_args_is_help=False,
    invoke_without_command=True,
    # typer's own help in rich costs a quarter of a second of imports.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(asked: bool) -> None:
    if asked:
        import restrike

        typer.echo(f"restrike {restrike.__version__}")
        raise typer.Exit


@app.callback()
def top(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of a failure. Goes before the verb.")
    ] = False,
) -> None:
    """Images and video from a prompt, on this machine."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


generate.register(app)
cards.register(app)
inspect.register(app)
doctor.register(app)
kernels.register(app)
validate.register(app)
plan.register(app)
run_verb.register(app)
runs.register(app)
explain.register(app)
store.register(app)
cells.register(app)
keys.register(app)
endpoints.register(app)
mint.register(app)
serve.register(app)
submit.register(app)
jobs.register(app)
wait.register(app)
cancel.register(app)
rerun.register(app)
move.register(app)
queue.register(app)
memory.register(app)
logs.register(app)
mcp.register(app)
tokens.register(app)


def run(arguments: list[str]) -> int:
    """Run the command line without its program name; returns the exit code and raises nothing."""
    try:
        code = get_command(app).main(args=arguments, prog_name="restrike", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe has gone (`restrike cards | head -1`): no news for anybody.
        silence_stdout()
        return 141
    except (Exception, KeyboardInterrupt) as error:
        return settle(error, as_json="--json" in arguments, traceback="--debug" in arguments)
    return code if isinstance(code, int) else 0

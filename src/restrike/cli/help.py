"""The look of --help: options in named groups, headings in colour. Imports no rich, whose help is slow."""

from __future__ import annotations

import sys
from typing import Any

from typer.core import TyperCommand, TyperGroup

from restrike.cli.other_words import command_for
from restrike.cli.style import styled
from restrike.errors import NotFound, Unknown


class Command(TyperCommand):
    """A verb whose options are shown in the groups that they name (`rich_help_panel`)."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                if is_argument and parameter.metavar:
                    record = (parameter.metavar, record[1])  # without the type in Python's words
                default = "Arguments" if is_argument else "Other"
                group = getattr(parameter, "rich_help_panel", None) or default
                groups.setdefault(group, []).append(record)
        for title, records in groups.items():
            with formatter.section(styled(title, "cyan", stream=sys.stdout)):
                formatter.write_dl(records)


class Group(TyperGroup):
    """The program, or a verb with verbs of its own: those first, then its few options."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        exists = self.list_commands(ctx)
        if args[0] not in exists and not args[0].startswith("-") and not ctx.resilient_parsing:
            said = command_for(args[0]) if ctx.parent is None else None
            if said:
                raise NotFound(f"there is no command '{args[0]}'; say: {said}")
            raise Unknown("command", args[0], exists)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section(styled("Verbs", "cyan", stream=sys.stdout)):
            formatter.write_dl(
                [(name, verb.get_short_help_str(80)) for name, verb in verbs if verb and not verb.hidden]
            )
        records = [record for part in self.get_params(ctx) if (record := part.get_help_record(ctx))]
        with formatter.section(styled("Options", "cyan", stream=sys.stdout)):
            formatter.write_dl(records)

"""`restrike submit FILE`, `PROMPT` or `--endpoint NAME`: give a server a job."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restrike.cli import verbs
from restrike.cli.calling import CallOptions, call_of
from restrike.cli.options import RequestOptions
from restrike.cli.server_options import ServerOptions, client_of
from restrike.cli.wait import Output, submitted
from restrike.cli.workflow_options import texts_of
from restrike.errors import Refused

if TYPE_CHECKING:
    from restrike.cards.adapters import Adapter
    from restrike.cards.request import Request
    from restrike.client.asked import Call, Terms, Work
    from restrike.client.client import Client

_WORKFLOWS = (".yaml", ".yml", ".json")
_SENT = (
    *("negative_prompt", "seed", "steps", "guidance", "guidance_2", "guidance_mode", "guidance_interval"),
    *("guidance_every", "width", "height", "frames", "fps", "solver", "shift", "sigmas", "call", "exact"),
)
"""The fields of a request that are sent as they are."""
_JOB, _RUN = "The job", "A workflow"


def _names(kind: type) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind))


_OF_PROMPTS = tuple(name for name in _names(RequestOptions) if name not in ("prompt", "seed"))
_OF_WORKFLOWS = ("values", "rerun", "no_reuse")
_PLANNED = ("accept_plan", "max_seconds", "max_download")


@dataclass(frozen=True, kw_only=True)
class Options(RequestOptions, CallOptions, ServerOptions):
    """The options of `restrike submit`."""

    prompt: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE|PROMPT", help="A workflow (.yaml, .json), or what to make, in quotes."),
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="Of a generation's file: png, webp, gif, mp4, webm.", rich_help_panel=_JOB
        ),
    ] = None
    values: Annotated[
        list[str],
        typer.Option(
            "-v",
            "--var",
            metavar="NAME=VALUE",
            help="A variable's value; may be given often.",
            rich_help_panel=_RUN,
        ),
    ] = field(default_factory=list)
    no_reuse: Annotated[
        bool, typer.Option("--no-reuse", help="Compute everything.", rich_help_panel=_RUN)
    ] = False
    rerun: Annotated[
        list[str],
        typer.Option(
            metavar="STEP",
            help="Compute this step whatever is kept; may be given often.",
            rich_help_panel=_RUN,
        ),
    ] = field(default_factory=list)
    workspace: Annotated[
        str,
        typer.Option(metavar="NAME", help="The server's workspace.", show_default=True, rich_help_panel=_JOB),
    ] = "default"
    client_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The same id again gives the same job.", rich_help_panel=_JOB),
    ] = None
    priority: Annotated[
        int,
        typer.Option(
            metavar="N", help="Of waiting jobs the highest goes first; 0 is usual.", rich_help_panel=_JOB
        ),
    ] = 0
    accept_plan: Annotated[
        str | None,
        typer.Option(
            metavar="FINGERPRINT", help="Refuse it if another plan would run by now.", rich_help_panel=_JOB
        ),
    ] = None
    max_seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="Refuse what is expected to take longer.", rich_help_panel=_JOB),
    ] = None
    max_download: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Refuse what has to download more, such as 2G.", rich_help_panel=_JOB
        ),
    ] = None
    trusted: Annotated[
        bool,
        typer.Option(
            "--trusted",
            help="It may name folders of the server; needs the scope admin.",
            rich_help_panel=_JOB,
        ),
    ] = False
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for it, as `restrike wait` does.", rich_help_panel=_JOB)
    ] = False
    output: Output = None


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "submit", Options, submit)


def submit(options: Options) -> None:
    """Submit a job to a server and print its id; -o gets its files."""
    client = client_of(options, workspace=options.workspace)
    job = client.submit(_work(options, client), _terms(options))
    submitted(client, job, wait=options.wait, folder=options.output, as_json=options.json)


def _terms(options: Options) -> Terms:
    from restrike.client.asked import Terms
    from restrike.settings import size_bytes

    most = options.max_download
    return Terms(
        client_id=options.client_id,
        priority=options.priority,
        accept_plan=options.accept_plan,
        max_seconds=options.max_seconds,
        max_download_bytes=None if most is None else size_bytes("--max-download", most),
    )


def _work(options: Options, client: Client) -> Work | Call:
    words = options.prompt or []
    if options.endpoint is not None:
        return _call(options, options.endpoint)
    _refuse(options, _names(CallOptions), "is for --endpoint")
    if len(words) == 1 and words[0].endswith(_WORKFLOWS):
        _refuse(options, _OF_PROMPTS, "is for a prompt, and a workflow has its own")
        return _workflow(options, Path(words[0]))
    why = f"is for a workflow, and '{' '.join(words)}' names no .yaml or .json file"
    _refuse(options, _OF_WORKFLOWS, why)
    return _generation(options, client)


def _call(options: Options, endpoint: str) -> Call:
    if options.prompt:
        raise Refused(f"'{' '.join(options.prompt)}' stands beside --endpoint, which takes a --payload")
    _refuse(options, (*_OF_PROMPTS, "kind"), "is for a prompt; an endpoint takes a --payload")
    _refuse(options, _OF_WORKFLOWS, "is for a workflow, not for an endpoint")
    _refuse(options, _PLANNED, "is for what can be planned, and an endpoint cannot")
    return call_of(options, endpoint, seed=options.seed, trusted=options.trusted)


def _refuse(options: Options, names: tuple[str, ...], why: str) -> None:
    """Refuse options that mean nothing here: none is dropped without a word."""
    for part in fields(options):
        default = part.default_factory() if part.default_factory is not MISSING else part.default
        if part.name in names and getattr(options, part.name) != default:
            flag = "-v" if part.name == "values" else f"--{part.name.replace('_', '-')}"
            raise Refused(f"{flag} {why}")


def _workflow(options: Options, file: Path) -> Work:
    from restrike.client.asked import Workflow
    from restrike.workflow.findings import Findings
    from restrike.workflow.source import read_file
    from restrike.workflow.variables import from_texts, specs_of

    if options.kind:
        raise Refused("--kind is for a prompt; a workflow's steps say their own kind")
    source = read_file(file)
    written = source.reading.definition.variables if source.reading else {}
    return Workflow.of(
        source,
        values=from_texts(texts_of(options.values), specs_of(written, Findings())),
        seed=options.seed,
        reuse=not options.no_reuse,
        rerun=tuple(options.rerun),
        trusted=options.trusted,
    )


def _generation(options: Options, client: Client) -> Work:
    from restrike.cli.asking import card_name, request_of, source_of
    from restrike.client.asked import Generation

    source = source_of(options)
    request = request_of(options, source)
    blank = type(request)(prompt=request.prompt)
    given = {name: getattr(request, name) for name in _SENT if getattr(request, name) != getattr(blank, name)}
    given |= {"items": request.items} | _files(options, request, client)
    return Generation(
        prompt=request.prompt,
        card=card_name(options, source),
        count=len(request.items),
        output=options.kind,
        options=given,
        trusted=options.trusted,
    )


def _files(options: Options, request: Request, client: Client) -> dict[str, Any]:
    """The picture and the LoRAs of a request as its server sees them: files of this machine are uploaded."""
    found: dict[str, Any] = {}
    if options.image is not None:
        found["image"] = client.upload(options.image)
    if request.adapters:
        found["adapters"] = [_adapter(adapter, client) for adapter in request.adapters]
    return found


def _adapter(adapter: Adapter, client: Client) -> dict[str, Any]:
    file = Path(adapter.location).expanduser()
    return {
        "path": client.upload(file) if file.is_file() else str(adapter.location),
        "strength": adapter.strength,
        "weight_name": adapter.weight_name,
        "component": adapter.component,
    }

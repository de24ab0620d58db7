"""The forms of what is sent: typed, unknown fields refused by name. What values mean, the workflow checks."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, JsonValue, model_validator

from restrike.cards.registry import DEFAULT
from restrike.cards.request import SEED_LIMIT
from restrike.cards.request_faults import COUNT_LIMIT
from restrike.server.jobs.model import JobKind
from restrike.server.place import DEFAULT_WORKSPACE
from restrike.server.service import Service
from restrike.server.submitting import Terms, Work

Seed = Annotated[int, Field(ge=0, le=SEED_LIMIT)]
ClientId = Annotated[
    str | None,
    Field(
        pattern=r"^[!-~]{1,200}$",
        description="Makes a retry safe: the same id with the same work is the same job.",
    ),
]
Priority = Annotated[int, Field(ge=-1000, le=1000, description="Of waiting jobs the higher goes first.")]
_SMALL = {"steps": 8, "seed": 3}
_GENERATION = {"card": "shapes", "prompt": "a red circle moving left", **_SMALL}
_EXAMPLE = json.dumps({"generation": {"card": "shapes", "prompt": "a red circle moving left"}})
_WORKFLOW = {
    "name": "digit",
    "seed": 3,
    "steps": {"seven": {"generate": "digits", "arguments": {"prompt": "seven"}}},
}


class Form(BaseModel):
    """A body in which every unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AdapterForm(Form):
    """A LoRA for one generation."""

    path: str = Field(max_length=500, description="A hub id, or $asset.NAME of an uploaded file.")
    strength: FiniteFloat = 1.0
    weight_name: str | None = None
    component: str | None = None


class GenerationForm(Form):
    """One generation; what is left out is the card's default. The card checks the values."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [_GENERATION]})

    card: str = Field(default=DEFAULT, max_length=300, description="An installed card or a hub id.")
    prompt: str = Field(max_length=100_000)
    negative_prompt: str | None = Field(default=None, max_length=100_000)
    seed: Seed | None = Field(default=None, description="Drawn and recorded if left out.")
    n: int = Field(default=1, ge=1, le=COUNT_LIMIT, description="How many pictures.")
    items: list[int] | None = Field(
        default=None,
        max_length=COUNT_LIMIT,
        description="These pictures of the batch alone, in place of `n`: [2] is the third, with its bytes.",
    )
    steps: int | None = None
    guidance: FiniteFloat | None = None
    guidance_2: FiniteFloat | None = None
    guidance_mode: str | None = None
    guidance_interval: tuple[FiniteFloat, FiniteFloat] | None = None
    guidance_every: int | None = None
    width: int | None = None
    height: int | None = None
    frames: int | None = None
    fps: FiniteFloat | None = None
    solver: str | None = None
    shift: FiniteFloat | None = None
    sigmas: list[FiniteFloat] | None = Field(default=None, max_length=1000)
    image: str | None = Field(
        default=None, max_length=500, description="$asset.NAME, or $output.WORKFLOW/RUN/FILE."
    )
    call: dict[str, JsonValue] | None = Field(default=None, description="A pipeline's own call arguments.")
    adapters: list[AdapterForm] | None = Field(default=None, max_length=16)
    exact: bool = Field(default=False, description="Refuse whatever would change the result.")
    output: str | None = Field(default=None, max_length=10, description="png, jpg, webp, gif, mp4 or webm.")

    @model_validator(mode="after")
    def _one_number(self) -> GenerationForm:
        if self.items is not None and "n" in self.model_fields_set and self.n != len(self.items):
            raise ValueError("give n or items, not both")
        return self

    def body(self) -> dict[str, Any]:
        """The body of its job."""
        given = self.model_dump(exclude_none=True, mode="json")
        count = given.pop("n")
        if not given["exact"]:
            del given["exact"]
        return {"items": list(range(count)), **given}


class WorkForm(Form):
    """What is to be done: a stored workflow by name, one written here, or a generation."""

    workflow: str | dict[str, JsonValue] | None = Field(
        default=None,
        description="The name of a stored workflow, or a whole workflow as an object.",
        examples=[_WORKFLOW],
    )
    text: str | None = Field(default=None, description="A whole workflow as YAML or JSON text.")
    generation: GenerationForm | None = None
    values: dict[str, JsonValue] = Field(default_factory=dict, description="Of the workflow's variables.")
    seed: Seed | None = Field(default=None, description="Takes the place of the workflow's own.")
    reuse: bool = Field(default=True, description="Whether results that are kept may be used.")
    rerun: list[str] = Field(default_factory=list, max_length=1000, description="Steps to compute anyway.")
    workspace: str = Field(default=DEFAULT_WORKSPACE, max_length=80)
    trusted: bool = Field(default=False, description="May name folders of the server; needs scope admin.")

    @model_validator(mode="before")
    @classmethod
    def _in_their_place(cls, given: Any) -> Any:
        stray = [name for name in GenerationForm.model_fields if name not in cls.model_fields]
        found = [name for name in stray if name in given] if isinstance(given, dict) else []
        if found:
            raise ValueError(f"put {' and '.join(found)} in `generation`, as in {_EXAMPLE}")
        return given

    @model_validator(mode="after")
    def _one(self) -> WorkForm:
        given = [name for name in ("workflow", "text", "generation") if getattr(self, name) is not None]
        if not given:
            raise ValueError(f"say what to do in one of workflow, text and generation, as in {_EXAMPLE}")
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are both given; give one of them")
        if self.generation is not None:
            other = {"values", "seed", "reuse", "rerun"} & self.model_fields_set
            if other:
                named = ", ".join(sorted(other))
                raise ValueError(f"a generation has no {named} beside it; its seed is in it")
        return self

    def work(self, service: Service) -> Work:
        """The work that it means; reads a stored workflow. Raises NotFound or Refused."""
        about = {"workspace": self.workspace, "trusted": self.trusted}
        if self.generation is not None:
            return Work(kind=JobKind.GENERATION, body=_still(self.generation.body()), **about)
        body: dict[str, Any] = {
            "values": self.values,
            "seed": self.seed,
            "reuse": self.reuse,
            "rerun": self.rerun,
        }
        if isinstance(self.workflow, str):
            from restrike.server.library import Library

            source = Library(service.workspace(self.workspace)).source(self.workflow)
            named = {"definition": {"workflow": self.workflow}, "name": self.workflow}
            return Work(kind=JobKind.WORKFLOW, body={**named, **body}, source=source, **about)
        written = self.workflow if self.text is None else self.text
        return Work(kind=JobKind.WORKFLOW, body={"definition": written, **body}, **about)


def _still(body: dict[str, Any]) -> dict[str, Any]:
    """A picture is one frame of a card that also makes videos, as on the command line."""
    from restrike.cards import registry

    is_still = body.get("output") in ("png", "jpg") and "frames" not in body
    if not is_still or body["card"] not in registry.names():
        return body
    accepts = registry.card(body["card"]).geometry.frames.accepts(1)
    return {**body, "frames": 1} if accepts else body


class SubmitForm(WorkForm):
    """Work, and how it is to be done."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {"generation": _GENERATION},
                {"workflow": _WORKFLOW, "client_id": "retry-me", "priority": 1},
                {"workflow": "digit", "values": {}, "max_seconds": 60},
            ]
        },
    )

    client_id: ClientId = None
    priority: Priority = 0
    accept_plan: str | None = Field(
        default=None, pattern=r"^[0-9a-f]{64}$", description="The fingerprint of a plan; 409 if it changed."
    )
    max_seconds: float | None = Field(default=None, ge=0, le=1e9)
    max_download_bytes: int | None = Field(default=None, ge=0, le=1 << 60)

    def terms(self) -> Terms:
        """How it is to be done."""
        return Terms(
            client_id=self.client_id,
            priority=self.priority,
            accept_plan=self.accept_plan,
            max_seconds=self.max_seconds,
            max_download_bytes=self.max_download_bytes,
        )


class RerunForm(Form):
    """How a job is done once more."""

    seed: Seed | None = Field(default=None, description="Its own if left out.")
    new_seed: bool = Field(default=False, description="Draw another seed.")
    client_id: ClientId = None

    def chosen(self) -> int | None:
        """The seed: given, drawn, or None for its own. A retry of the same client id gets the same one."""
        from restrike.workflow.seeds import derived, drawn

        if not self.new_seed or self.seed is not None:
            return self.seed
        return drawn() if self.client_id is None else derived(0, self.client_id)


class MoveForm(Form):
    """Where a waiting job shall stand."""

    priority: int | None = Field(default=None, ge=-1000, le=1000)
    before: str | None = Field(default=None, max_length=80, description="Another waiting job.")

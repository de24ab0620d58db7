"""The schema of a workflow file. It says which shapes are allowed and resolves nothing.

pydantic checks the form; names, references and types of arguments are checked where what they name is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)

from restrike.cards.request import SEED_LIMIT
from restrike.workflow.findings import shown
from restrike.workflow.references import NAME

MAX_NAME = 80
KINDS = ("generate", "pipeline", "task", "workflow")
_REFERENCE = {"type": "string", "pattern": r"^\$"}


def _name(text: str) -> str:
    if len(text) > MAX_NAME or not re.fullmatch(NAME, text):
        raise ValueError(
            f"'{text[:40]}' is no name: a letter or _, then letters, digits, _ and -, at most {MAX_NAME}"
        )
    return text


def _one_of(words: str, accepts: Callable[[Any], bool], schema: dict[str, Any]) -> tuple[Any, Any]:
    """Validation with one message for a value that may be of several kinds, and its JSON Schema."""

    def check(value: Any) -> Any:
        if accepts(value) or (isinstance(value, str) and value.startswith("$")):
            return value
        raise ValueError(f"is not {words}: {shown(value)}")

    return PlainValidator(check), WithJsonSchema({"anyOf": [schema, _REFERENCE]})


def _choice(*names: str) -> tuple[Any, Any]:
    """One of some words, or a reference that stands for one."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and (value in names or value.startswith("$")):
            return value
        listed = ", ".join(f"'{name}'" for name in names[:-1])
        raise ValueError(f"input should be {listed} or '{names[-1]}', not {shown(value)}")

    return PlainValidator(check), WithJsonSchema({"anyOf": [{"enum": list(names)}, _REFERENCE]})


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


Name = Annotated[
    str,
    AfterValidator(_name),
    WithJsonSchema({"type": "string", "pattern": f"^{NAME}$", "maxLength": MAX_NAME}),
]
Seed = Annotated[
    int | str,
    *_one_of(
        f"an integer from 0 to {SEED_LIMIT}, 'random' or a reference",
        lambda value: value == "random" or _whole(value, 0, SEED_LIMIT),
        {"anyOf": [{"type": "integer", "minimum": 0, "maximum": SEED_LIMIT}, {"const": "random"}]},
    ),
]
Flag = Annotated[
    bool | str,
    *_one_of("true, false or a reference", lambda value: isinstance(value, bool), {"type": "boolean"}),
]
Count = Annotated[
    int | str,
    *_one_of(
        "an integer from 1 to 1000 or a reference",
        lambda value: _whole(value, 1, 1000),
        {"type": "integer", "minimum": 1, "maximum": 1000},
    ),
]
Overlap = Annotated[
    int | str,
    *_one_of(
        "an integer from 0 to 1000 or a reference",
        lambda value: _whole(value, 0, 1000),
        {"type": "integer", "minimum": 0, "maximum": 1000},
    ),
]
Scale = Annotated[
    int | float | str,
    *_one_of(
        "a number or a reference",
        lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        {"type": "number"},
    ),
]
ForEach = Annotated[
    str | list[JsonValue] | dict[str, JsonValue],
    *_one_of(
        "a list, a table, {zip: ...}, {product: ...} or a reference",
        lambda value: isinstance(value, list | dict),
        {"anyOf": [{"type": "array", "minItems": 1}, {"type": "object", "minProperties": 1}]},
    ),
]
Precision = Annotated[str, *_choice("float32", "bfloat16", "float16")]
Offload = Annotated[str, *_choice("none", "model", "sequential", "group")]
Arguments = dict[str, JsonValue]
TypeName = Literal["text", "integer", "number", "boolean", "list", "table", "file", "any"]


class Strict(BaseModel):
    """A part of the file in which every unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class VariableSpec(Strict):
    """A variable. Its type is that of the default unless `type` says otherwise."""

    type: TypeName = Field(default="any", description="What its values are; from the default if left out.")
    default: JsonValue = Field(
        default=None,
        description="Used when no value is given; null makes it optional, none at all required.",
    )
    minimum: float | None = Field(default=None, description="Smallest number, inclusive.")
    maximum: float | None = Field(default=None, description="Largest number, inclusive.")
    multiple_of: float | None = Field(default=None, gt=0, description="The number is a multiple of this.")
    choices: list[JsonValue] | None = Field(
        default=None, min_length=1, description="The only values allowed."
    )
    description: str = Field(default="", description="For people.")


class ResultSpec(Strict):
    """How a step's value becomes files. Nothing here is part of the step's key."""

    save: Flag = Field(default=True, description="Whether the value is written into the run's folder.")
    container: str | None = Field(
        default=None,
        description="png, jpg, webp, gif, mp4, webm, wav, txt, json; what suits the value if left out.",
    )
    options: Arguments = Field(default_factory=dict, description="Options of the container, such as crf.")
    folder: str | None = Field(default=None, description="A folder inside the run's folder.")
    name: str | None = Field(default=None, description="The file's base name; the step's name if left out.")


class LoraSpec(Strict):
    """One adapter of a pipeline."""

    path: str | None = Field(
        description="A safetensors file, a folder, or a hub id; null disables the entry."
    )
    weight_name: str | None = Field(default=None, description="The file within a folder or repository.")
    scale: Scale = Field(default=1.0, description="Its strength.")
    name: Name | None = Field(default=None, description="How diffusers calls it.")


class SchedulerSpec(Strict):
    """Another scheduler for a pipeline: a diffusers class and options over the checkpoint's own."""

    class_: str = Field(alias="class", description="A diffusers scheduler class.")
    options: Arguments = Field(default_factory=dict, description="Configuration values to change.")


class QuantizationSpec(Strict):
    """Weights of a pipeline held in fewer bits."""

    class_: str = Field(
        alias="class", description="A configuration class: TorchAoConfig, BitsAndBytesConfig, QuantoConfig."
    )
    options: Arguments = Field(default_factory=dict, description="Its options; an object is {class: .., ..}.")
    components: list[str] | None = Field(
        default=None, min_length=1, description="Which components; the denoisers if left out."
    )


class PipelineSpec(Strict):
    """A diffusers pipeline: what to load and how."""

    checkpoint: str = Field(description="A folder in the diffusers layout or a hub id.")
    class_: str | None = Field(
        default=None, alias="class", description="Another pipeline class of diffusers."
    )
    precision: Precision | None = Field(default=None, description="The dtype of its weights.")
    load: Arguments = Field(
        default_factory=dict,
        description="variant: the weights' variant; COMPONENT: null leaves a component out.",
    )
    scheduler: SchedulerSpec | None = None
    loras: list[LoraSpec] = Field(default_factory=list)
    quantization: QuantizationSpec | None = None
    offload: Offload = Field(default="none", description="What waits off the GPU until it is used.")
    attention: str | None = Field(default=None, description="An attention backend of diffusers.")


class SegmentsSpec(Strict):
    """One step run several times over, each segment fed from the one before, joined to one clip."""

    count: Count = Field(description="How many segments.")
    feed: dict[Name, Literal["last_frame", "last_segment"]] = Field(
        min_length=1, description="Which argument of the next segment takes what of the last."
    )
    overlap: Overlap | None = Field(
        default=None,
        description="Frames that each segment repeats of the last and that are kept once; "
        "1 when a last_frame is fed, else 0.",
    )


class StepSpec(Strict):
    """A step: exactly one of `generate`, `pipeline`, `task` and `workflow`, and its arguments."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [kind]} for kind in KINDS]})

    generate: str | None = Field(
        default=None, description="A card: its name, a checkpoint folder or a hub id."
    )
    pipeline: PipelineSpec | None = Field(default=None, description="A diffusers pipeline called whole.")
    task: str | None = Field(default=None, description="A task by name; `restrike tasks` lists them.")
    workflow: (
        Annotated[
            Annotated[str, Tag("file")] | Annotated[Definition, Tag("inline")],
            Discriminator(lambda value: "inline" if isinstance(value, dict | Definition) else "file"),
        ]
        | None
    ) = Field(default=None, description="A workflow file, relative to this one, or a workflow written here.")
    arguments: Arguments = Field(default_factory=dict, description="What the step is called with.")
    seed: Seed | None = Field(default=None, description="Overrides the workflow's seed.")
    for_each: ForEach | None = Field(default=None, description="Runs the step once for each entry.")
    segments: SegmentsSpec | None = Field(default=None, description="Runs the step as a chain.")
    result: ResultSpec | None = Field(default=None, description="How the value becomes files.")

    @property
    def kind(self) -> str:
        """Which of the four kinds it is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @model_validator(mode="after")
    def _one_kind(self) -> StepSpec:
        chosen = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(chosen) != 1:
            given = " and ".join(chosen) or "none of them"
            raise ValueError(f"a step has exactly one of {', '.join(KINDS)}; this has {given}")
        if self.for_each is not None and self.segments is not None:
            raise ValueError("a step has for_each or segments, not both")
        if self.workflow is not None and (self.segments is not None or self.result is not None):
            raise ValueError("a workflow step has no segments and no result; they belong to its own steps")
        return self


class ReuseSpec(Strict):
    """Who may reuse this workflow's step results, and how alike the machine must be."""

    scope: Literal["workspace", "shared"] = Field(
        default="workspace", description="workspace: only runs of this workspace; shared: all on this store."
    )
    match: Literal["portable", "exact"] = Field(
        default="portable", description="exact: only results of the same device, torch and attention backend."
    )


class Definition(Strict):
    """A workflow: named steps, the variables that a run can set, and how results are reused."""

    schema_: str | None = Field(default=None, alias="$schema", description="For editors.")
    name: Name | None = Field(
        default=None, description="Also the folder of its runs; the file's if left out."
    )
    description: str = Field(default="", description="For people.")
    seed: Seed = Field(default="random", description="An integer, or random: drawn, recorded, reusable.")
    variables: dict[Name, JsonValue] = Field(
        default_factory=dict, description="Values that a run can set: a default, or {type, default, ...}."
    )
    steps: dict[Name, StepSpec] = Field(
        min_length=1, description="By name; what they read decides the order."
    )
    output: Name | None = Field(
        default=None,
        description="The step whose result a step that calls this workflow has; the last if left out.",
    )
    reuse: ReuseSpec = Field(default_factory=ReuseSpec)

    @property
    def output_step(self) -> str:
        """The name of the step that is the result."""
        return self.output or next(reversed(self.steps))


StepSpec.model_rebuild()


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a workflow file, for editors."""
    schema = Definition.model_json_schema(by_alias=True)
    # A recursive model is a $ref at the top, beside which some editors look at nothing else.
    top = schema["$defs"][Definition.__name__]
    spec = VariableSpec.model_json_schema()
    schema["$defs"]["VariableSpec"] = spec
    top["properties"]["variables"]["patternProperties"] = {
        f"^{NAME}$": {"anyOf": [{"$ref": "#/$defs/VariableSpec"}, {"description": "The default itself."}]}
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Restrike workflow",
        **{name: part for name, part in top.items() if name != "title"},
        "$defs": schema["$defs"],
    }

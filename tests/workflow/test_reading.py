from __future__ import annotations

from typing import Any

import pytest

from restrike.workflow.definition import Definition, json_schema
from restrike.workflow.findings import Findings
from restrike.workflow.loading import load_text
from restrike.workflow.reading import Reading, read

from .samples import DIGIT, expanded, findings, steps


def reading(text: str) -> tuple[Reading | None, dict[str, str]]:
    found = Findings()
    return read(load_text(text), found), {finding.path: finding.message for finding in found.found}


ONE = "steps: {a: {task: text.join}}"


def test_one_step_is_a_workflow() -> None:
    found, faults = reading(ONE)
    assert not faults
    assert found is not None
    assert found.definition.steps["a"].kind == "task"
    assert found.definition.seed == "random"
    assert found.definition.output_step == "a"


@pytest.mark.parametrize("text", ["name: x", "steps: {}", "steps: 3", "steps: null", "steps: [1]"])
def test_without_steps_it_is_none_and_the_path_says_so(text: str) -> None:
    found, faults = reading(text)
    assert found is None
    assert list(faults) == ["steps"]


MISSPELT = {
    "seedd: 1": ("seedd", "seed"),
    "reuse: {scpoe: shared}": ("reuse.scpoe", "scope"),
    "steps: {a: {task: x, argument: {}}}": ("steps.a.argument", "arguments"),
    "steps: {a: {task: x, result: {container: png, folderr: x}}}": ("steps.a.result.folderr", "folder"),
    "steps: {a: {task: x, segments: {count: 2, feed: {a: last_frame}, overlop: 1}}}": (
        "steps.a.segments.overlop",
        "overlap",
    ),
    "steps: {a: {pipeline: {checkpoint: x, ofload: none}}}": ("steps.a.pipeline.ofload", "offload"),
    "steps: {a: {pipeline: {checkpoint: x, loras: [{path: x, scal: 1}]}}}": (
        "steps.a.pipeline.loras[0].scal",
        "scale",
    ),
    "steps: {a: {pipeline: {checkpoint: x, scheduler: {class: X, option: {}}}}}": (
        "steps.a.pipeline.scheduler.option",
        "options",
    ),
    "steps: {a: {workflow: {steps: {b: {task: x, sead: 1}}}}}": ("steps.a.workflow.steps.b.sead", "seed"),
}


@pytest.mark.parametrize("text", MISSPELT)
def test_an_unknown_key_is_named_with_the_nearest_that_exists(text: str) -> None:
    path, meant = MISSPELT[text]
    _, faults = reading(text if "steps" in text else f"{text}\n{ONE}")
    assert list(faults) == [path]
    assert f"unknown key '{path.rpartition('.')[2]}'; did you mean '{meant}'?" in faults[path]


WRONG = {
    "seed: 1.5": ("seed", "is not an integer from 0"),
    "seed: -1": ("seed", "is not an integer from 0"),
    "seed: true": ("seed", "is not an integer from 0"),
    "seed: 9007199254740992": ("seed", "is not an integer from 0"),
    "name: a b": ("name", "'a b' is no name"),
    "name: 3": ("name", "string"),
    "reuse: {scope: all}": ("reuse.scope", "'workspace' or 'shared'"),
    "variables: {1x: 3}": ('variables["1x"]', "is no name"),
    "steps: {b c: {task: x}}": ('steps["b c"]', "is no name"),
    "steps: {a: {}}": ("steps.a", "exactly one of generate, pipeline, task, workflow; this has none"),
    "steps: {a: {task: x, generate: y}}": ("steps.a", "this has generate and task"),
    "steps: {a: {task: 3}}": ("steps.a.task", "string"),
    "steps: {a: null}": ("steps.a", "input should be"),
    "steps: {a: {task: x, arguments: [1]}}": ("steps.a.arguments", "dictionary"),
    "steps: {a: {task: x, for_each: 3}}": ("steps.a.for_each", "is not a list, a table"),
    "steps: {a: {task: x, for_each: [1], segments: {count: 1, feed: {a: last_frame}}}}": (
        "steps.a",
        "for_each or segments, not both",
    ),
    "steps: {a: {task: x, segments: {count: 0, feed: {a: last_frame}}}}": (
        "steps.a.segments.count",
        "integer from 1 to 1000",
    ),
    "steps: {a: {task: x, segments: {count: 2, feed: {a: first_frame}}}}": (
        "steps.a.segments.feed.a",
        "'last_frame' or 'last_segment'",
    ),
    "steps: {a: {task: x, segments: {feed: {a: last_frame}}}}": ("steps.a.segments.count", "is missing"),
    "steps: {a: {workflow: x, result: {}}}": ("steps.a", "belong to its own steps"),
    "steps: {a: {workflow: {name: x}}}": ("steps.a.workflow.steps", "is missing"),
    "steps: {a: {pipeline: {}}}": ("steps.a.pipeline.checkpoint", "is missing"),
    "steps: {a: {task: x, result: {save: 1}}}": ("steps.a.result.save", "is not true, false"),
}


@pytest.mark.parametrize("text", WRONG)
def test_each_fault_of_form_has_its_path_and_one_message(text: str) -> None:
    path, message = WRONG[text]
    _, faults = reading(text if "steps" in text else f"{text}\n{ONE}")
    assert list(faults) == [path]
    assert message in faults[path]


def test_faults_of_one_step_hide_none_of_another() -> None:
    found = findings(
        """
        sede: 3
        variables: {1a: 3, b: {type: integr}, c: {type: integer, default: x}}
        steps:
          one: {task: text.join, generate: digits}
          two: {generate: digits, argumens: {}, arguments: {prompt: $var.nope, stepz: 3}}
          three: {task: text.nope}
          four: {generate: digits, arguments: {prompt: $step.one, steps: 5000}}
          five: {task: text.template, arguments: {template: $step.gone, values: {a: $var.b, c: $var.c}}}
        """
    )
    assert set(found) == {
        "sede",
        'variables["1a"]',
        "variables.b.type",
        "variables.c.default",
        "steps.one",
        "steps.two.argumens",
        "steps.two.arguments.prompt",
        "steps.two.arguments.stepz",
        "steps.three.task",
        "steps.four.arguments.steps",
        "steps.five.arguments.template",
    }


# The JSON Schema.


def properties(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return schema["$defs"][name]["properties"]


def test_the_schema_knows_every_key_and_describes_the_ones_people_write() -> None:
    schema = json_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {"$schema", *(set(Definition.model_fields) - {"schema_"})}
    for part in (schema["properties"], properties(schema, "StepSpec"), properties(schema, "ResultSpec")):
        assert all("description" in key or "$ref" in key for key in part.values()), part
    assert {tuple(kind["required"]) for kind in schema["$defs"]["StepSpec"]["oneOf"]} == {
        ("generate",),
        ("pipeline",),
        ("task",),
        ("workflow",),
    }


def test_all_that_the_schema_refers_to_is_in_it() -> None:
    schema = json_schema()

    def referred(tree: Any) -> set[str]:
        if isinstance(tree, dict):
            own = {tree["$ref"]} if isinstance(tree.get("$ref"), str) else set()
            return own.union(*map(referred, tree.values()))
        return set().union(*map(referred, tree)) if isinstance(tree, list) else set()

    assert referred(schema) <= {f"#/$defs/{name}" for name in schema["$defs"]}


def test_a_file_may_name_its_schema() -> None:
    expanded({"$schema": "./workflow.schema.json", **steps(a=DIGIT)})

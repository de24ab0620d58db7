"""Stored workflows: read, save, change by merge patch, and every revision of each."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from pydantic import Field, JsonValue, model_validator

from restrike.server.api.asking import HERE, TheService, Workspace
from restrike.server.api.bodies import Form
from restrike.server.library import Library
from restrike.server.service import Service
from restrike.server.submitting import check_plain
from restrike.workflow.definition import json_schema
from restrike.workflow.source import read_text

router = APIRouter(prefix="/api", tags=["workflows"])
On = Annotated[
    int | None, Query(ge=0, le=1 << 31, description="The revision that this change is made on; 0: new.")
]
_EXAMPLE = {"seed": 3, "steps": {"seven": {"generate": "digits", "arguments": {"prompt": "seven"}}}}


class SaveForm(Form):
    """A whole workflow, as an object or as text."""

    definition: dict[str, JsonValue] | None = Field(default=None, examples=[_EXAMPLE])
    text: str | None = Field(default=None, description="YAML or JSON.")

    @model_validator(mode="after")
    def _one(self) -> SaveForm:
        if (self.definition is None) == (self.text is None):
            raise ValueError("give exactly one of definition and text")
        return self

    def tree(self, name: str) -> dict[str, Any]:
        """The workflow as plain values; raises InvalidWorkflow or Refused."""
        if self.text is not None:
            return dict(read_text(self.text, name=name).tree)
        check_plain(self.definition or {})
        return dict(self.definition or {})


@router.get("/workflows", summary="List stored workflows")
def list_workflows(service: TheService, workspace: Workspace = HERE) -> Any:
    """Their names; a job names one to run it."""
    return {"workflows": list(_library(service, workspace).names())}


@router.get("/workflows/{name}", summary="Read a workflow")
def read_workflow(
    name: str,
    service: TheService,
    workspace: Workspace = HERE,
    revision: Annotated[int | None, Query(ge=1, le=1 << 31)] = None,
) -> Any:
    """The newest revision, or another."""
    return asdict(_library(service, workspace).read(name, revision))


@router.get("/workflows/{name}/revisions", summary="List the revisions of a workflow")
def list_revisions(name: str, service: TheService, workspace: Workspace = HERE) -> Any:
    """Their numbers, the newest first."""
    return {"revisions": list(_library(service, workspace).revisions(name))}


@router.put("/workflows/{name}", summary="Save a workflow")
def save_workflow(
    name: str, form: SaveForm, service: TheService, workspace: Workspace = HERE, on: On = None
) -> Any:
    """As a new revision; with `on`, only if it was not changed meanwhile."""
    return asdict(_library(service, workspace).save(name, form.tree(name), on=on))


@router.patch("/workflows/{name}", summary="Change a workflow by a merge patch")
def patch_workflow(
    name: str,
    service: TheService,
    change: Annotated[
        dict[str, JsonValue],
        Body(examples=[{"steps": {"seven": {"arguments": {"prompt": "eight"}}}}]),
    ],
    workspace: Workspace = HERE,
    on: On = None,
) -> Any:
    """RFC 7396: objects are merged, null removes. Two patches at once lose nothing of each other."""
    check_plain(change)
    return asdict(_library(service, workspace).patch(name, change, on=on))


@router.delete("/workflows/{name}", status_code=204, summary="Delete a workflow")
def delete_workflow(name: str, service: TheService, workspace: Workspace = HERE) -> None:
    """Jobs that were submitted run on, for they have a snapshot."""
    _library(service, workspace).delete(name)


@router.get("/schema", summary="The JSON Schema of workflows")
def schema() -> Any:
    """For editors and for whoever writes one."""
    return json_schema()


def _library(service: Service, workspace: str) -> Library:
    return Library(service.workspace(workspace))

"""What all of OpenAI's routes do with a request: find its card, submit its generation, read its form.

The generation goes through the same door as every other job; nothing is checked here that is checked there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, UploadFile

from restrike.cards.card import ModelCard
from restrike.errors import Finding, NotFound, Refused
from restrike.server.jobs.model import Job, JobKind
from restrike.server.naming import card_named
from restrike.server.openai.failures import BadField, bad_field
from restrike.server.place import DEFAULT_WORKSPACE
from restrike.server.service import Service
from restrike.server.submitting import Terms, Work, submit

_KEY = "idempotency-key"
Asked = TypeVar("Asked", bound=BaseModel)


class UnknownModel(NotFound):
    """No card serves the model that a request names."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The field `model`."""
        return (Finding(path="model", message=self.message),)


def card_of(model: str) -> ModelCard:
    """The card of a model that a request names; raises UnknownModel or BadField."""
    try:
        return card_named(model)
    except NotFound as error:
        raise UnknownModel(error.message) from error
    except Refused as error:
        raise BadField("model", error.message) from error


def workspace_of(request: Request) -> str:
    """The workspace of a request: the project that the client was made with, or the default one."""
    return request.headers.get("openai-project") or DEFAULT_WORKSPACE


def submitted(service: Service, request: Request, body: Mapping[str, Any]) -> Job:
    """The durable job of a generation; `Idempotency-Key` makes a retry the same job. Raises as `submit`."""
    key = request.headers.get(_KEY)
    if key is not None and not re.fullmatch(r"[!-~]{1,200}", key):
        raise BadField(_KEY, "a key has 1 to 200 letters, digits and signs")
    work = Work(kind=JobKind.GENERATION, body=body, workspace=workspace_of(request))
    return submit(service, work, Terms(client_id=key))


def stops_with_its_client(request: Request) -> bool:
    """Whether the job of a request has nobody left to wait for it once its client has gone.

    With a key of idempotency the same job is a retry's, and anyone's who sent the key.
    """
    return _KEY not in request.headers


async def form_of(
    request: Request, kind: type[Asked], files: tuple[str, ...]
) -> tuple[Asked, list[UploadFile]]:
    """A form's fields as `kind` has them, and its files, which come under the names of `files` only.

    Raises BadField for a field that is not supported, a file where none belongs, or several where one does.
    """
    form: FormData = await request.form(max_files=4, max_fields=64)
    fields: dict[str, Any] = {}
    uploads: list[UploadFile] = []
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            if name.removesuffix("[]") not in files:
                raise BadField(name, "this file is not supported here; leave it out")
            uploads.append(value)
        elif name in fields:
            raise BadField(name, "given twice")
        else:
            fields[name] = value
    return read(kind, fields), uploads


def read(kind: type[Asked], fields: Mapping[str, Any]) -> Asked:
    """Fields as `kind` has them; raises BadField for the first that does not fit."""
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as error:
        raise bad_field(error.errors()[0]) from error  # type: ignore[arg-type]

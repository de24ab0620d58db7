"""Failures in the form that OpenAI's clients read and turn into their own exceptions. Decides no class."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from restrike.errors import RULES, Crashed, Finding, NotFound, Refused, RestrikeError, Retry, rule_of
from restrike.server.forms import said
from restrike.server.jobs.model import Failure
from restrike.server.problems import NO_JSON, Rejected, class_of, status_of

# OpenAI answers 400 to what cannot be served as it stands, and its clients name their exceptions by that.
_STATUSES = {RULES[Refused].http_status: 400}
# What the fields are called here that a card knows by other names.
_FIELDS = {
    "width": "size",
    "height": "size",
    "count": "n",
    "items": "n",
    "frames": "seconds",
    "generate": "model",
}
_FIELDS |= {"card": "model", "container": "output_format"}


class BadField(Refused):
    """A field of a request cannot be served; `findings` names it."""

    def __init__(self, field: str, message: str) -> None:
        self._field = field
        super().__init__(f"{field}: {message}")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The one field."""
        return (Finding(path=self._field, message=self.message),)


class OpenAIRoute(APIRoute):
    """A route whose failures are answered in OpenAI's form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of FastAPI with these answers around it."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except (RequestValidationError, ValidationError) as error:
                failure: RestrikeError = bad_field(error.errors()[0])
            except HTTPException as error:
                failure = Rejected(error.status_code, str(error.detail))
            except RestrikeError as error:
                failure = error
            return openai_response(failure, request.app.state.service.shown)

        return handled


def openai_response(error: RestrikeError, shown: Callable[[Any], Any]) -> JSONResponse:
    """The answer to a request that failed; clients are told not to repeat what no repetition changes."""
    status = status_of(error)
    again = "false" if rule_of(error).retry is Retry.NEVER else "true"
    return JSONResponse(
        {"error": shown(described(error))},
        status_code=_STATUSES.get(status, status),
        headers={"x-should-retry": again},
    )


def described(error: RestrikeError) -> dict[str, Any]:
    """The object `error` of an answer or of an event."""
    place = error.findings[0].path.rpartition(".")[2] if error.findings else ""
    field = _FIELDS.get(place, place) or None
    kind = "invalid_request_error" if isinstance(error, Refused) else "server_error"
    missing = "model_not_found" if field == "model" else "not_found"
    code = missing if isinstance(error, NotFound) else _code(error)
    return _envelope(error.message, kind, field, code)


def of_job(failure: Failure | None, state: str) -> RestrikeError:
    """The failure of a job, of the class that its worker gave it."""
    if failure is None:
        return Crashed(f"the job was {state}")
    kind = next((kind for kind in RULES if kind.__name__ == failure.kind), Crashed)
    return kind(f"{failure.reason}; {failure.remedy}" if failure.remedy else failure.reason)


def bad_field(fault: Mapping[str, Any]) -> BadField:
    """What pydantic found first, as a refusal that names the field."""
    path = [str(part) for part in fault["loc"] if part not in ("body", "query")]
    field = path[0] if path else "body"
    if fault["type"] == "extra_forbidden":
        return BadField(field, "this field is not supported here; leave it out")
    if fault["type"] == "model_attributes_type" and not path:
        return BadField(field, NO_JSON)
    return BadField(field, said(fault))


def _code(error: RestrikeError) -> str:
    if isinstance(error, BadField):
        return "invalid_value"
    return class_of(error)


def _envelope(message: str, kind: str, field: str | None, code: str | None) -> dict[str, Any]:
    return {"message": message, "type": kind, "param": field, "code": code}

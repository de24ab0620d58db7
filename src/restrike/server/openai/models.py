"""`GET /v1/models`: the installed cards as models. Loads none."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.errors import RestrikeError
from restrike.server.openai.asking import card_of
from restrike.server.openai.failures import OpenAIRoute

router = APIRouter(prefix="/v1", tags=["openai"], route_class=OpenAIRoute)


@router.get("/models", summary="List the models")
def list_models() -> Any:
    """The installed cards that have weights."""
    return {"object": "list", "data": _listed()}


@router.get("/models/{model:path}", summary="Read one model")
def read_model(model: str) -> Any:
    """A card by its name, or by the id of its checkpoint."""
    return _shown(model, card_of(model))


def _listed() -> list[dict[str, Any]]:
    """The cards that have weights; one that cannot be read or that needs a checkpoint serves nobody here."""
    found: list[dict[str, Any]] = []
    for name in registry.names():
        try:
            card = registry.card(name)
        except RestrikeError:
            continue
        if card.location is not None:
            found.append(_shown(name, card))
    return found


def _shown(name: str, card: ModelCard) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "restrike",
        "description": card.description,
        "tasks": [str(task) for task in card.tasks()],
    }

"""The machine: its devices and memory, what is kept on it, and what it can run."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path

from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.errors import NotFound, RestrikeError
from restrike.server.api.asking import TheService, heavy
from restrike.server.api.bodies import Form
from restrike.server.service import Service
from restrike.server.views import captures_view, cells_view, worker_view

router = APIRouter(prefix="/api", tags=["machine"])
Key = Annotated[str, Path(pattern=r"^[0-9a-f]{4,64}$", description="A key, or how one begins.")]


class CollectForm(Form):
    """What may stay."""

    limit_bytes: int | None = None


class PinForm(Form):
    """Why a result stays; null lets it go again."""

    reason: str | None = "pinned over HTTP"


@router.get("/devices", summary="Devices, workers and memory")
def devices(service: TheService) -> Any:
    """Each worker with what it holds; memory is this machine's, in bytes."""
    now = time.time()
    found = [worker_view(worker, now) for worker in service.workers.live()]
    return service.shown({"workers": found, "memory": _memory()})


@router.get("/captures", summary="Graphs of steps")
def captures(service: TheService) -> Any:
    """Of each device and card: how many are armed, and what they did since the worker was started.

    What a job replayed is in its record.
    """
    return service.shown({"captures": captures_view(service.workers.live())})


@router.get("/cards", summary="Models that are installed")
async def cards(service: TheService) -> Any:
    """What each makes and its defaults; a hub id works too."""
    return {"cards": await heavy(service, lambda: [_card(name) for name in registry.names()])}


@router.get("/tasks", summary="Tasks that workflows can call")
async def tasks(service: TheService) -> Any:
    """By name, with what each does."""

    def look() -> list[dict[str, Any]]:
        found = service.session("default", trusted=False).machine.tasks
        return [{"name": name, "does": found.get(name).summary} for name in found.names()]

    return {"tasks": await heavy(service, look)}


@router.get("/store", summary="What is kept of results")
def store(service: TheService) -> Any:
    """How much, and what it took to compute."""
    return asdict(service.store.stats())


@router.post("/store/verify", summary="Digest all results again")
async def verify_store(service: TheService) -> Any:
    """What is damaged is set aside."""
    return asdict(await heavy(service, service.store.verify))


@router.post("/store/collect", summary="Remove what nothing needs")
async def collect_store(service: TheService, form: CollectForm | None = None) -> Any:
    """And what is over a limit, the least worth first."""
    limit_bytes = None if form is None else form.limit_bytes
    return asdict(await heavy(service, lambda: service.store.collect(limit_bytes)))


@router.post("/store/{key}/pin", summary="Keep a result whatever the limit says")
def pin(key: Key, form: PinForm, service: TheService) -> Any:
    """Or let it go again."""
    entry = service.store.find(key)
    service.store.pin(entry.key, form.reason)
    return {"key": entry.key.digest.hex, "pinned": form.reason}


@router.get("/cells", summary="Compiled graphs that are kept")
async def cells(service: TheService) -> Any:
    """Those that are whole, those that were set aside, and what they did for each device and card."""
    kept = await heavy(service, lambda: _cells(service))
    return service.shown({**kept, "use": cells_view(service.workers.live())})


def _cells(service: Service) -> dict[str, Any]:
    from restrike.mint.store.store import CellStore

    found = CellStore(service.store.root / "cells")
    kept = [
        {
            "key": cell.key.hex,
            "size_bytes": cell.size_bytes,
            "recipe": cell.header.facts.stack.recipe if cell.header else None,
            "target": str(cell.header.facts.target) if cell.header else None,
            "torch": cell.header.facts.stack.torch if cell.header else None,
            "refusal": None if cell.refusal is None else str(cell.refusal),
        }
        for cell in found.cells()
    ]
    aside = [{"key": cell.key, "reason": cell.reason, "detail": cell.detail} for cell in found.quarantined()]
    return {"cells": kept, "quarantined": aside}


def _card(name: str) -> dict[str, Any]:
    try:
        return _described(registry.card(name))
    except (RestrikeError, ImportError) as error:
        return {"name": name, "fault": str(error)}


def _described(card: ModelCard) -> dict[str, Any]:
    if card.location is None:
        weights = "yours: name a hub id in place of the card"
    else:
        try:
            here = card.location.present(()) is not None
        except NotFound:
            here = False
        weights = "here" if here else "missing"
    return {
        "name": card.name,
        "description": card.description,
        "tasks": [str(task) for task in card.tasks()],
        "geometry": {axis: str(getattr(card.geometry, axis)) for axis in ("width", "height", "frames")},
        "defaults": asdict(card.defaults),
        "license": card.license,
        "example": card.example,
        "weights": weights,
    }


def _memory() -> dict[str, int | None]:
    return {"total_bytes": _pages("SC_PHYS_PAGES"), "free_bytes": _pages("SC_AVPHYS_PAGES")}


def _pages(name: str) -> int | None:
    try:
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None

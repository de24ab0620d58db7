"""Clears the memory of devices that run nothing: their workers do it, between jobs, and say what it freed."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import anyio.to_thread

from restrike.errors import Conflict, Shortfall, Unknown
from restrike.server.service import Service
from restrike.server.workers import WorkerRow

WAIT_S = 30.0
_LOOK_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Cleared:
    """What became of one device: the bytes that are free by it, or why it was left as it is."""

    device: str
    freed_bytes: int = 0
    refusal: str | None = None


async def clear_one(service: Service, device: str) -> Cleared:
    """Clear one device.

    Raises:
        Unknown: no live worker has it.
        Conflict: it runs a job.
        Shortfall: its worker does not answer; it will not clear anything later.
    """
    live = await anyio.to_thread.run_sync(service.workers.live)
    row = next((row for row in live if row.device == device), None)
    if row is None:
        raise Unknown("device", device, [row.device for row in live], hint="Only those with a live worker.")
    return await _cleared(service, row)


async def clear_idle(service: Service) -> tuple[Cleared, ...]:
    """Clear all devices that are idle; each of the others is left as it is, and says why."""
    live = await anyio.to_thread.run_sync(service.workers.live)
    found: dict[str, Cleared] = {}

    async def one(row: WorkerRow) -> None:
        try:
            found[row.id] = await _cleared(service, row)
        except (Conflict, Shortfall) as error:
            found[row.id] = Cleared(device=row.device, refusal=error.message)

    async with anyio.create_task_group() as tasks:
        for row in live:
            tasks.start_soon(one, row)
    return tuple(found[row.id] for row in live)


async def _cleared(service: Service, worker: WorkerRow) -> Cleared:
    wish = await anyio.to_thread.run_sync(service.clearing.ask, worker.id)
    try:
        await anyio.to_thread.run_sync(service.waking)
        with anyio.move_on_after(WAIT_S):
            while (freed_bytes := await anyio.to_thread.run_sync(service.clearing.answer, wish)) is None:
                await anyio.sleep(_LOOK_S)
            return Cleared(device=worker.device, freed_bytes=freed_bytes)
        raise Shortfall(
            f"the worker of {worker.device} did not answer within {WAIT_S:.0f} s; look at its log"
        )
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(service.clearing.withdraw, wish)

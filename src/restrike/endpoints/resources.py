"""Whether a machine has what an endpoint asks for. Asks torch only about GPUs that are asked for."""

from __future__ import annotations

import os
from importlib.util import find_spec

from restrike.endpoints.declaration import Endpoint
from restrike.errors import Refused


class MissingResource(Refused):
    """The machine lacks something that an endpoint needs."""

    def __init__(self, endpoint: str, resource: str, wanted: str, there: str) -> None:
        self.resource = resource
        super().__init__(
            f"endpoint '{endpoint}' needs {wanted}, this machine has {there}; run it on another one"
        )


def require(endpoint: Endpoint) -> None:
    """Raise MissingResource, naming the first thing that this machine lacks."""
    asked = endpoint.resources
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if asked.cpus > cores:
        raise MissingResource(endpoint.name, "cpus", f"{asked.cpus} processor cores", str(cores))
    memory_bytes = _memory_bytes()
    if asked.memory_bytes > memory_bytes:
        raise MissingResource(
            endpoint.name, "memory", f"{asked.memory_bytes} bytes of memory", str(memory_bytes)
        )
    if asked.gpus:
        _require_gpus(endpoint)


def _require_gpus(endpoint: Endpoint) -> None:
    asked = endpoint.resources
    wanted = "a GPU" if asked.gpus == 1 else f"{asked.gpus} GPUs"
    sizes_bytes = _gpu_memory_bytes()
    if len(sizes_bytes) < asked.gpus:
        raise MissingResource(endpoint.name, "gpus", wanted, str(len(sizes_bytes) or "none"))
    large = [size for size in sizes_bytes if size >= asked.gpu_memory_bytes]
    if len(large) < asked.gpus:
        most = f"at most {max(sizes_bytes)}"
        wanted = f"{wanted} of {asked.gpu_memory_bytes} bytes"
        raise MissingResource(endpoint.name, "gpu_memory", wanted, most)


def _gpu_memory_bytes() -> list[int]:
    if find_spec("torch") is None:
        return []
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [torch.cuda.get_device_properties(index).total_memory for index in range(count)]


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

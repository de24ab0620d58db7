"""Gives an exception of torch its place in the failure tree, where `errors.typed` alone cannot know it.

Reads the exception only; imports no torch.
"""

from __future__ import annotations

from restrike.errors import RestrikeError, Shortfall, typed

# torch has a class for a GPU that is full, and for main memory nothing but words; compilers have others, and
# so do the loader that cannot start one and the driver whose compiler the system killed.
_WORDS = (
    "DefaultCPUAllocator",
    "virtual memory exhausted",
    "out of memory",
    "Cannot allocate memory",
    "failed to map segment from shared object",
    "Killed signal terminated program",
)


def placed(error: BaseException) -> RestrikeError:
    """The error in the tree: memory that ran out anywhere below is a shortfall, whatever wrapped it."""
    cause: BaseException | None = error
    while cause is not None:
        found = typed(cause)
        if isinstance(found, Shortfall):
            return found
        if any(word in str(cause) for word in _WORDS):
            return Shortfall(f"out of memory: {typed(cause).message[:300]}")
        cause = cause.__cause__ or cause.__context__
    return typed(error)

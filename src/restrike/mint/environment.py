"""The variables that a compiler reads: pinned for the child before it starts, and watched while it works.

Never changes the environment of the process that asks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from restrike.mint.refusals import EnvironmentChanged, Subject

_PREFIXES = (
    "AOT_",
    "AOTI_",
    "ATEN_",
    "DNNL_",
    "INDUCTOR_",
    "KMP_",
    "MKL_",
    "OMP_",
    "ONEDNN_",
    "PYTORCH_",
    "TORCH",
    "TRITON_",
)
_NAMES = frozenset(
    """
    CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH
    COMPILER_PATH GCC_EXEC_PREFIX LD_LIBRARY_PATH LD_PRELOAD PATH PYTHONHASHSEED TMPDIR
    """.split()  # noqa: SIM905  (twenty quoted names are no easier to read)
)
# Where things are is not what the compiler does: these stay as they are.
_KEPT = frozenset(["LD_LIBRARY_PATH", "LD_PRELOAD", "PATH"])
# Torch sets some of its own variables as it is imported or at work.
_TORCHS_OWN = frozenset(["TORCHINDUCTOR_CACHE_DIR", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "KMP_INIT_AT_FORK"])


def read_by_compilers(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide, or could decide, what a compiler makes."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name in _NAMES or name.startswith(_PREFIXES)
    }


def child_environment(
    environment: Mapping[str, str], *, scratch: Path, threads: int, compiler: str | None
) -> dict[str, str]:
    """The environment of a mint: the given one with everything that a compiler reads set or left out.

    All that is cached or temporary lies in `scratch`.
    """
    dropped = read_by_compilers(environment).keys() - _KEPT
    pinned = {
        "AOT_INDUCTOR_ENABLE_LINE_TABLES": "0",
        "OMP_NUM_THREADS": str(threads),
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(scratch / "tmp"),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": str(threads),
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        **({"CXX": compiler} if compiler else {}),
    }
    return {name: value for name, value in environment.items() if name not in dropped} | pinned


class EnvironmentSeal:
    """What compilers read of the environment at one moment, to be compared with later ones."""

    def __init__(self) -> None:
        self._before = read_by_compilers(os.environ)

    def check(self, subject: Subject) -> None:
        """Raise EnvironmentChanged, naming the first variable that is not as it was."""
        now = read_by_compilers(os.environ)
        for name in sorted(now.keys() | self._before.keys()):
            if name not in _TORCHS_OWN and now.get(name) != self._before.get(name):
                raise EnvironmentChanged(
                    subject,
                    f"the variable {name} changed from {self._before.get(name)!r} to {now.get(name)!r} "
                    "while it compiled",
                    "leave the environment alone in the model's code, and mint again",
                )

"""How much memory there is to use, and why: asked for, set, or free."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from restrike.engine.engine import Engine
from restrike.engine.memory import limits
from restrike.engine.memory.limits import limit_of, main_memory_bytes, main_memory_free_bytes
from restrike.errors import Refused
from restrike.settings import settings, settings_of

from .rooms import CPU

MIB = 1 << 20


def system(tmp_path: Path, files: dict[str, str]) -> tuple[Path, Path]:
    """The folders /proc and /sys/fs/cgroup of a machine."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "proc", tmp_path / "cgroup"


MACHINE = {"proc/meminfo": f"MemTotal: 9 kB\nMemAvailable:   {8 * 1024} kB\n"}


def test_the_machine_tells_what_is_available(tmp_path: Path) -> None:
    assert main_memory_free_bytes(*system(tmp_path, MACHINE)) == 8 * MIB


def test_a_cgroup_around_the_process_leaves_less(tmp_path: Path) -> None:
    files = MACHINE | {
        "proc/self/cgroup": "0::/a/b\n",
        "cgroup/a/memory.max": str(4 * MIB),
        "cgroup/a/memory.current": str(3 * MIB),
        "cgroup/a/memory.stat": f"anon 5\ninactive_file {MIB}\n",
        "cgroup/a/b/memory.max": "max\n",
        "cgroup/a/b/memory.current": str(MIB),
    }
    assert main_memory_free_bytes(*system(tmp_path, files)) == 2 * MIB


def test_what_there_is_at_all_is_the_least_of_machine_and_cgroups(tmp_path: Path) -> None:
    files = {"proc/meminfo": f"MemTotal: {8 * 1024} kB\nMemAvailable: 9 kB\n"}
    assert main_memory_bytes(*system(tmp_path, files)) == 8 * MIB
    group = {
        "proc/self/cgroup": "0::/a/b\n",
        "cgroup/a/memory.max": str(4 * MIB),
        "cgroup/a/b/memory.max": "max\n",
    }
    assert main_memory_bytes(*system(tmp_path, group)) == 4 * MIB
    assert main_memory_bytes(tmp_path / "none", tmp_path / "none") is None


def test_so_does_one_of_the_older_interface(tmp_path: Path) -> None:
    files = MACHINE | {
        "proc/self/cgroup": "4:memory:/a\n1:cpu:/\n",
        "cgroup/memory/a/memory.limit_in_bytes": str(4 * MIB),
        "cgroup/memory/a/memory.usage_in_bytes": str(4 * MIB),
        "cgroup/memory/a/memory.stat": f"total_inactive_file {MIB}\ninactive_file 0\n",
    }
    assert main_memory_free_bytes(*system(tmp_path, files)) == MIB


def test_a_system_that_does_not_tell_gets_an_assumption_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main_memory_free_bytes(*system(tmp_path, {})) is None
    monkeypatch.setattr(limits, "main_memory_free_bytes", lambda: None)
    assert "does not tell" in str(limit_of(CPU))


def test_what_is_asked_for_comes_before_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    settings.cache_clear()
    monkeypatch.setenv("RESTRIKE_MEMORY", "8G")
    try:
        assert str(limit_of(CPU)) == "8.6 GB (RESTRIKE_MEMORY)"
        assert str(limit_of(CPU, 5_000_000)) == "5.0 MB (memory_limit_bytes of the engine)"
    finally:
        settings.cache_clear()


def test_by_default_it_is_what_is_free() -> None:
    found = limit_of(CPU)
    assert found.why == "the main memory that was free"
    assert 0 < found.size_bytes <= torch.iinfo(torch.int64).max


@pytest.mark.parametrize("asked", [0, -1])
def test_no_memory_is_refused_by_name(asked: int) -> None:
    with pytest.raises(Refused, match=f"memory_limit_bytes={asked}"):
        Engine(device="cpu", memory_limit_bytes=asked).load("digits")


@pytest.mark.parametrize("text", ["0", "0G", "much", "-1G", "8Q"])
def test_a_bad_setting_is_refused_by_name(text: str) -> None:
    with pytest.raises(Refused, match=f"RESTRIKE_MEMORY={text}"):
        settings_of({"RESTRIKE_MEMORY": text})


def test_a_setting_that_is_empty_is_none() -> None:
    assert settings_of({"RESTRIKE_MEMORY": ""}).memory_limit_bytes is None
    assert settings_of({"RESTRIKE_MEMORY": "500M"}).memory_limit_bytes == 500 * MIB


def test_a_gpu_counts_what_torch_keeps_of_freed_tensors_as_free(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"mem_get_info": (1000, 2000), "memory_reserved": 700, "memory_allocated": 600}
    for name, value in told.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    assert str(limit_of(torch.device("cuda", 0))) == "1.0 kB (95 % of what was free on cuda:0)"
    assert limit_of(torch.device("cuda", 0)).size_bytes == 1045

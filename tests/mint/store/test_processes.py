"""Several real processes on one store: minted once, taken over from the dead, never torn or pulled away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mint.cells import HOST, Making
from mint.rewriting import Parts
from restrike.mint.store.store import CellStore

MINTER = """
import os, sys, time
from pathlib import Path
from restrike.mint.store.store import CellStore
from restrike.keys import Digest

root, log, sealed, key, seconds = *map(Path, sys.argv[1:4]), Digest(sys.argv[4]), float(sys.argv[5])
store = CellStore(root)
with store.minting(key) as mine:
    if mine:
        with log.open("a") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(seconds)
        assert store.publish(sealed) == "published"
assert store.has(key)
"""

PUBLISHER = """
import sys
from pathlib import Path
from restrike.mint.store.store import CellStore

input()
print(CellStore(Path(sys.argv[1])).publish(Path(sys.argv[2])))
"""

USER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from mint.cells import HOST
from restrike.keys import Digest
from restrike.mint.store.store import CellStore

with CellStore(Path(sys.argv[1])).open(Digest(sys.argv[2]), HOST):
    print("open", flush=True)
    input()
"""

# Dies at the point that it is told, of the signal that nothing can catch.
DYING = """
import os, signal, sys
from pathlib import Path
from restrike.mint.store import store as stores
from restrike.store import files

root, sealed, point = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

def die(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

def half_a_copy(source, written, length=0):
    written.write(source.read(700))
    written.flush()
    die()

if point == "copying":
    files._reflinked = lambda *given: False
    files.shutil.copyfileobj = half_a_copy
elif point == "verifying":
    stores.verify_manifest = die
elif point == "placing":
    stores.sync_folder = die
else:
    real = os.replace
    def replace(source, target):
        if str(target).endswith(".cell") and "sealed" in str(target):
            die()
        real(source, target)
    os.replace = replace
stores.CellStore(root).publish(sealed)
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> int:
    """The exit status of a process, once it has ended; its pipes are closed."""
    process.communicate(timeout=120)
    return process.returncode


def wait_for_lines(log: Path, count: int) -> list[int]:
    for _ in range(1200):
        lines = log.read_text().split() if log.exists() else []
        if len(lines) >= count:
            return list(map(int, lines))
        time.sleep(0.05)
    raise AssertionError("nobody began")


def test_concurrent_mints_of_one_key_run_once(store: CellStore, sealed: Path, tmp_path: Path) -> None:
    key, log = Parts.of(sealed).key, tmp_path / "log"
    running = [start(MINTER, store.root, log, sealed, key, 0.5) for _ in range(4)]
    assert [ended(each) for each in running] == [0] * 4
    assert len(log.read_text().split()) == 1


def test_who_waits_takes_over_from_the_dead(store: CellStore, sealed: Path, tmp_path: Path) -> None:
    key, log = Parts.of(sealed).key, tmp_path / "log"
    first = start(MINTER, store.root, log, sealed, key, 600)
    (pid,) = wait_for_lines(log, 1)
    second = start(MINTER, store.root, log, sealed, key, 0)
    os.kill(pid, signal.SIGKILL)
    assert (ended(first), ended(second)) == (-signal.SIGKILL, 0)
    assert len(log.read_text().split()) == 2


def test_of_racing_publishers_one_wins_and_all_agree(store: CellStore, tmp_path: Path) -> None:
    # One key, four different files.
    files = [
        Making().with_facts(compiler=f"g++ {n}").sealed(tmp_path / f"{n}.cell", store.ring.signer())
        for n in range(4)
    ]
    running = [start(PUBLISHER, store.root, file) for file in files]
    said = [each.communicate("\n", timeout=120)[0].strip() for each in running]
    assert sorted(said) == ["already", "already", "already", "published"]
    (cell,) = store.cells()
    assert store.path(cell.key).read_bytes() == files[said.index("published")].read_bytes()


def test_a_cell_that_another_process_uses_is_not_collected(store: CellStore, sealed: Path) -> None:
    store.publish(sealed)
    key = Parts.of(sealed).key
    user = start(USER, store.root, key, Path(__file__).parents[2])
    assert user.stdout is not None
    assert user.stdout.readline() == "open\n"
    assert store.collect(0).evicted == 0
    user.communicate("\n", timeout=60)
    assert store.collect(0).evicted == 1


def test_a_cell_that_a_dead_process_used_is_collected(store: CellStore, sealed: Path) -> None:
    store.publish(sealed)
    user = start(USER, store.root, Parts.of(sealed).key, Path(__file__).parents[2])
    assert user.stdout is not None
    assert user.stdout.readline() == "open\n"
    user.kill()
    assert ended(user) == -signal.SIGKILL
    collected = store.collect(0)
    assert (collected.evicted, collected.dead_leases) == (1, 1)


@pytest.mark.parametrize(
    ("point", "is_there"), [("copying", False), ("verifying", False), ("renaming", False), ("placing", True)]
)
def test_killed_while_publishing(point: str, is_there: bool, store: CellStore, sealed: Path) -> None:
    dying = start(DYING, store.root, sealed, point)
    assert ended(dying) == -signal.SIGKILL
    key = Parts.of(sealed).key
    assert store.has(key) is is_there
    assert len(store.cells()) == is_there
    # What there is, is whole; and the next one publishes.
    assert store.verify().refused == ()
    assert store.publish(sealed) == ("already" if is_there else "published")
    with store.open(key, HOST) as cell:
        assert cell.header.key == key
    # What the dead left behind is swept once nobody can be writing it.
    left = list(store.partial.rglob("*.*"))
    for path in left:
        os.utime(path, (1000, 1000))
    assert store.collect().partial == len(left)


def test_looking_verifying_and_moving_load_no_torch() -> None:
    light = (
        "import sys\n"
        "import restrike.mint.store.moving, restrike.mint.cell.seal, restrike.cli.cells, restrike.cli.keys\n"
        "assert not {'torch', 'fsspec'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", light], check=True)

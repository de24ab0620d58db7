"""`python -m restrike.server.worker`: one worker process, started by a server and ended with it.

Orders come on its standard input, nudges go to its standard output; all that anyone prints goes to its log.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence

from restrike.server.worker.lines import Nudges, Orders
from restrike.server.worker.memory import rank_for_oom
from restrike.server.worker.options import WorkerOptions, parsed

OWN_THREADS = ("orders", "telling", "attendance")


def main(words: Sequence[str]) -> int:
    """Work until the server says otherwise; returns the exit status."""
    options = parsed(words)
    # Ctrl-C in a terminal is for the server, which then tells its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rank_for_oom(options.oom_score)
    os.nice(options.nice)
    threading.excepthook = _end_with_thread
    nudges = Nudges(_kept_apart(1, 2))
    orders = Orders()
    orders.listen(_kept_apart(0, os.open(os.devnull, os.O_RDONLY)))
    return _work(options, orders, nudges)


def _kept_apart(line: int, instead: int) -> int:
    """A line under another number, so that nothing a job prints or starts can get at it."""
    kept = os.dup(line)
    os.dup2(instead, line)
    return kept


def _end_with_thread(failed: threading.ExceptHookArgs) -> None:
    """End the process when a thread of its own fails: without it the worker would only seem to work."""
    threading.__excepthook__(failed)
    if failed.thread is not None and failed.thread.name in OWN_THREADS:
        os._exit(1)


def _work(options: WorkerOptions, orders: Orders, nudges: Nudges) -> int:
    # Before anything reads the settings: what an engine may use of main memory is divided by the workers.
    limit_bytes = _divided_memory(options)
    from restrike.server.database.connect import Database
    from restrike.server.jobs.clearing import Clearing
    from restrike.server.jobs.queue import Queue
    from restrike.server.place import Place
    from restrike.server.worker.attendance import Attendance
    from restrike.server.worker.machine import WorkerMachine
    from restrike.server.worker.worker import Worker, complain
    from restrike.server.workers import WorkerRow, Workers
    from restrike.store.owner import Owner

    database = Database(options.database)
    queue, workers = Queue(database), Workers(database)
    row = WorkerRow(
        id=options.name,
        device=options.device,
        owner=str(Owner.here()),
        server=options.server,
        memory_bytes=limit_bytes,
        host_bytes=_host_bytes(options),
    )
    place = Place(folder=options.data, database=options.database)
    machine = WorkerMachine(options=options, place=place)
    attendance = Attendance(row, workers, queue, orders, complain, machine.report)
    return Worker(machine, queue, workers, Clearing(database), attendance, orders, nudges.give).run()


def _divided_memory(options: WorkerOptions) -> int:
    import torch

    from restrike.engine.memory.limits import limit_of
    from restrike.server.worker.machine import share_of_memory

    device = torch.device(options.torch_device)
    if device.type == "cpu" and "RESTRIKE_MEMORY" not in os.environ:
        share_bytes = share_of_memory(options.share)
        if share_bytes is not None:
            os.environ["RESTRIKE_MEMORY"] = str(share_bytes)
    return limit_of(device).size_bytes


def _host_bytes(options: WorkerOptions) -> int | None:
    from restrike.engine.memory.limits import main_memory_bytes

    return main_memory_bytes() if options.torch_device.startswith("cuda") else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m restrike.server.worker`: one worker process, started by a server and ended with it.

Orders come on its standard input, nudges go to its standard output; all that anyone prints goes to its log.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from restrike.server.worker.lines import Nudges, Orders
from restrike.server.worker.memory import rank_for_oom
from restrike.server.worker.options import WorkerOptions, parsed


def main(words: Sequence[str]) -> int:
    """Work until the server says otherwise; returns the exit status."""
    options = parsed(words)
    # Ctrl-C in a terminal is for the server, which then tells its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rank_for_oom(options.oom_score)
    os.nice(options.nice)
    nudges = Nudges(_own_output())
    orders = Orders()
    orders.listen(0)
    return _work(options, orders, nudges)


def _own_output() -> int:
    """The standard output under another number; what is printed from now on goes to the log."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def _work(options: WorkerOptions, orders: Orders, nudges: Nudges) -> int:
    # Before anything reads the settings: what an engine may use of main memory is divided by the workers.
    limit_bytes = _divided_memory(options)
    from restrike.server.database.connect import Database
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
    )
    attendance = Attendance(row, workers, queue, orders, complain)
    place = Place(folder=options.data, database=options.database)
    machine = WorkerMachine(options=options, place=place)
    return Worker(machine, queue, workers, attendance, orders, nudges.give).run()


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

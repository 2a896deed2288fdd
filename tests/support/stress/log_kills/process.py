"""The process that is killed: a broker's logs on a real disk, written, compacted and deleted from without end.

    python -m support.stress.log_kills.process        then a line on stdin with the path of its orders

It opens the logs, reports what it finds (`support.stress.log_kills.opened_logs`), sends again what was not answered
before the last kill, sends some old batches again, prints "at work" on stdout and then writes until it is killed, or
ends cleanly when stdin ends. Every operation is in its journal (`support.stress.log_kills.journal`) before it starts.
"""

from __future__ import annotations

import logging
import select
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from support.stress.log_kills.broker import Broker
from support.stress.log_kills.clients import Clients, now_ms
from support.stress.log_kills.journal import Journal, Orders
from support.stress.log_kills.opened_logs import Seen, Sighting
from support.stress.log_kills.workload import PARTITIONS
from tailrace.model.errors import OffsetOutOfRangeError
from tailrace.model.ids import TopicPartition
from tailrace.record.shallow import batches
from tailrace.storage.fetch import Isolation
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.verify import verify_directory

READ_BYTES = 1 << 20
PAUSE_SECONDS = 0.0005
TURNS_PER_PAUSE = 3


def see(broker: Broker) -> Sighting:
    """Nothing changes meanwhile: all changes are made on this thread."""
    return Sighting(now_ms(), {name: _see(broker, broker.log(each)) for name, each in PARTITIONS.items()})


def _see(broker: Broker, log: UnifiedLog) -> Seen:
    log.update_high_watermark(log.log_end_offset)
    try:
        log.read(log.log_start_offset - 1, READ_BYTES)
        is_start_kept = False
    except OffsetOutOfRangeError:
        is_start_kept = True
    aborted: set[tuple[int, int, int]] = set()
    return Seen(
        log.log_start_offset,
        log.log_end_offset,
        log.last_stable_offset,
        log.local.active.base_offset,
        broker.cleaner_point(log),
        is_start_kept,
        errors=[f"verification: {finding}" for finding in verify_directory(broker.files, log.dir)],
        data=b"".join(_read(log, Isolation.LOG_END, aborted)),
        committed=b"".join(_read(log, Isolation.TXN_COMMITTED, aborted)),
        aborted=sorted(aborted),
    )


def _read(log: UnifiedLog, isolation: Isolation, aborted: set[tuple[int, int, int]]) -> Iterator[bytes]:
    offset = log.log_start_offset
    while True:
        found = log.read(offset, READ_BYTES, isolation)
        data = found.read()
        whole = list(batches(data))
        if not whole:
            return
        aborted.update((each.producer_id, each.first_offset, each.last_offset) for each in found.aborted or ())
        yield data[: whole[-1].end]
        offset = whole[-1].next_offset


def is_told_to_end() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def main() -> None:
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    line = sys.stdin.readline().strip()
    if not line:
        return
    orders = Orders.read(Path(line))
    root = Path(orders.root)
    broker = Broker(root, orders.seed)
    broker.open()
    broker.create_missing()
    see(broker).write(root / f"sighting-{orders.run}")
    journal = Journal(root / f"journal-{orders.run}")
    _note_cleans(broker, journal)
    clients = Clients(broker, orders, journal)
    clients.send_again()
    clients.probe()
    print("at work", flush=True)
    for turn in count():
        if is_told_to_end():
            break
        clients.work()
        broker.jobs.step()
        if not turn % TURNS_PER_PAUSE:
            time.sleep(PAUSE_SECONDS)
    broker.close()


def _note_cleans(broker: Broker, journal: Journal) -> None:
    def note(partition: TopicPartition, stats: Any) -> None:
        journal.write("cleaned", str(partition), stats.records_read, stats.records_written)

    broker.manager.cleaner.on_cleaned.add(note)


if __name__ == "__main__":
    main()

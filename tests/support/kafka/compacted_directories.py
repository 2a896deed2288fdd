"""Partition directories that our engine writes and compacts, for Kafka to judge: each case is some rounds of writing.

After each round the directory is copied and the copy compacted; the next round goes on in a copy of that. So every
clean has a directory before it and one after it, both closed.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from support.compaction.expected_dump import Clean
from support.logs.log_writer import CONFIG, HOUR_MS, Producer, Scribe, Sent
from tailrace.config.log import LogConfig
from tailrace.record.legacy import compressed_wrapper, plain_message
from tailrace.storage.compaction.log_compaction import IO_BUFFER_BYTES, cleanable_of, compact
from tailrace.storage.compaction.offset_map import OffsetMap
from tailrace.storage.steps import run_inline

DAY_MS = 24 * HOUR_MS
COMPACTED = replace(CONFIG, cleanup_policy=("compact",), delete_retention_ms=HOUR_MS)

Round = Callable[[Scribe], None]


class Cleaned(NamedTuple):
    """One clean of one directory."""

    before: Path
    after: Path
    clean: Clean


class Case(NamedTuple):
    rounds: Sequence[Round]
    config: LogConfig = COMPACTED
    io_buffer_bytes: int = IO_BUFFER_BYTES


def write_and_clean(folder: Path, name: str, case: Case) -> list[Cleaned]:
    (folder / "0-before").mkdir(exist_ok=True)
    scribe = Scribe(folder / "0-before" / f"{name}-0", case.config)
    cleaned: list[Cleaned] = []
    first_dirty = 0
    for number, write in enumerate(case.rounds):
        write(scribe)
        scribe.log.update_high_watermark(scribe.log.log_end_offset)
        scribe.log.roll()
        before = scribe.directory
        go_on_in(scribe, folder / f"{number}-after" / f"{name}-0")
        scribe.log.update_high_watermark(scribe.log.log_end_offset)
        now_ms = scribe.clock.now_ms()
        to_clean = cleanable_of(scribe.log, first_dirty, now_ms).log
        clean = Clean(first_dirty, to_clean.first_uncleanable_offset, now_ms, case.config.delete_retention_ms)
        assert clean.end > first_dirty
        offset_map = OffsetMap(240_000, random.Random(number))
        stats = run_inline(compact(scribe.log, to_clean, offset_map, now_ms, case.io_buffer_bytes, buffers_per_step=1))
        assert stats.cleaner_point == clean.end
        first_dirty = clean.end
        after = scribe.directory
        go_on_in(scribe, folder / f"{number + 1}-before" / f"{name}-0")
        cleaned.append(Cleaned(before, after, clean))
    scribe.log.abandon()
    return cleaned


def go_on_in(scribe: Scribe, directory: Path) -> None:
    scribe.close()
    shutil.copytree(scribe.directory, directory, ignore=shutil.ignore_patterns("*.deleted"))
    scribe.directory = directory
    scribe.open(was_clean=True)


def keyed(scribe: Scribe, name: str, keys: Sequence[int], tombstones: Sequence[int] = ()) -> list[Sent]:
    """Records of these keys; times go up from batch to batch, and down within one."""
    at_ms = scribe.clock.now_ms()
    return [
        Sent(
            at_ms - n,
            f"key-{key}".encode(),
            None if key in tombstones else f"{name} {key} ".encode() * 4,
            (("round", name.encode()),) if key % 3 == 0 else (),
        )
        for n, key in enumerate(keys)
    ]


def spread(turn: int, count: int = 8, of: int = 30) -> list[int]:
    return [(turn * 7 + n * 3) % of for n in range(count)]


# -- the cases -------------------------------------------------------------------------------------------------------


def overwritten(codec: int) -> Case:
    """Keys written again and again: whole batches go, others lose some of their records, few stay as they are."""

    def write(scribe: Scribe) -> None:
        for turn in range(20):
            scribe.send(keyed(scribe, f"turn-{turn}", spread(turn)), codec)
        scribe.send(keyed(scribe, "only-here", [100, 101, 102]), codec)

    def write_again(scribe: Scribe) -> None:
        for turn in range(6):
            scribe.send(keyed(scribe, f"again-{turn}", spread(turn, 4)), codec)

    return Case((write, write_again))


def tombstones() -> Case:
    """In batches with values and without; within their window, when it has passed, and followed by a value."""

    def write(scribe: Scribe) -> None:
        for turn in range(10):
            scribe.send(keyed(scribe, f"turn-{turn}", spread(turn)), turn % 5)
        scribe.send(keyed(scribe, "last", [0, 1, 2, 3], tombstones=[0, 2]), 0)
        scribe.send(keyed(scribe, "last", [4, 5], tombstones=[4, 5]), 4)
        scribe.send(keyed(scribe, "never-there", [70, 71], tombstones=[70]), 1)

    def revive(scribe: Scribe) -> None:
        scribe.send(keyed(scribe, "revived", [0, 5, 6], tombstones=[6]), 3)

    def wait(scribe: Scribe) -> None:
        scribe.clock.advance(HOUR_MS)
        scribe.send(keyed(scribe, "late", [90]), 2)

    return Case((write, revive, wait))


def transactions() -> Case:
    """Committed and aborted ones, interleaved and over segments; all of their records go, then their markers.

    In the last round all producers are forgotten.
    """
    a, b, c, d = (Producer(1000 + n, n) for n in range(4))

    def send(scribe: Scribe, producer: Producer, name: str, keys: Sequence[int], tombs: Sequence[int] = ()) -> None:
        scribe.send(keyed(scribe, name, keys, tombs), producer.epoch, producer, transactional=True)

    def fill(scribe: Scribe, turns: int) -> None:
        for turn in range(turns):
            scribe.send(keyed(scribe, f"plain-{turn}", spread(turn)), turn % 5)

    def write(scribe: Scribe) -> None:
        fill(scribe, 3)
        send(scribe, a, "committed", [0, 1, 40, 41])
        send(scribe, b, "aborted", [2, 3, 42])
        fill(scribe, 4)
        scribe.end(a, commit=True)
        send(scribe, b, "aborted", [4, 43, 44], [44])
        scribe.end(b, commit=False)
        send(scribe, c, "superseded", [50, 51])
        scribe.end(c, commit=True)
        send(scribe, d, "aborted-only", [52])
        scribe.end(d, commit=False)
        scribe.send(keyed(scribe, "supersedes", [50, 51, 52]))
        send(scribe, a, "committed", [45, 46], [46])
        scribe.end(a, commit=True)
        fill(scribe, 3)

    def write_again(scribe: Scribe) -> None:
        scribe.clock.advance(HOUR_MS)
        send(scribe, a, "aborted", [40, 45])
        fill(scribe, 5)
        scribe.end(a, commit=False)
        send(scribe, b, "committed", [42])
        scribe.end(b, commit=True)
        scribe.log.roll()
        send(scribe, c, "open", [60])  # beyond what is cleaned now
        fill(scribe, 2)

    def supersede(scribe: Scribe) -> None:
        scribe.end(c, commit=False)
        scribe.send(keyed(scribe, "supersedes", [40, 41, 42, 45, 46]))

    def forget(scribe: Scribe) -> None:
        scribe.clock.advance(2 * DAY_MS)
        fill(scribe, 2)

    return Case((write, write_again, supersede, forget, forget, forget))


def idempotent() -> Case:
    """Producers whose last batches lose every record and stay, empty, until the producers are forgotten."""
    first, second, third = (Producer(2000 + n, n) for n in range(3))

    def write(scribe: Scribe) -> None:
        for turn in range(9):
            scribe.send(keyed(scribe, f"turn-{turn}", spread(turn)), turn % 5, (first, second, third)[turn % 3])
        for turn in range(10):
            scribe.send(keyed(scribe, f"plain-{turn}", spread(turn)), turn % 5)

    def write_again(scribe: Scribe) -> None:
        scribe.send(keyed(scribe, "goes-on", [1, 2]), 0, second)
        scribe.send(keyed(scribe, "supersedes", [1, 2]), 0)

    def forget(scribe: Scribe) -> None:
        scribe.clock.advance(2 * DAY_MS)
        scribe.send(keyed(scribe, "late", [3]), 0)

    return Case((write, write_again, forget))


def append_time() -> Case:
    """Stamped by the leader."""

    def write(scribe: Scribe) -> None:
        for turn in range(12):
            scribe.send(keyed(scribe, f"turn-{turn}", spread(turn), tombstones=[turn]), turn % 5)

    return Case((write, write), replace(COMPACTED, message_timestamp_type="LogAppendTime"))


def full_indexes() -> Case:
    """Compacted in small bites with room for five entries in an index, written with room for many: segments split."""

    def write(scribe: Scribe) -> None:
        for turn in range(40):
            scribe.send(keyed(scribe, f"turn-{turn}", [turn, 100]), 0)
        scribe.use(segment_index_bytes=60)

    def write_again(scribe: Scribe) -> None:
        scribe.use(segment_index_bytes=960)
        write(scribe)

    return Case((write, write_again), replace(COMPACTED, index_interval_bytes=50), io_buffer_bytes=300)


def old_formats() -> Case:
    """Message sets of format v0 and v1, plain and compressed, with batches of format v2 behind them."""

    def write(scribe: Scribe) -> None:
        for turn in range(24):
            magic, base = (turn // 4) % 2, scribe.next_offset
            sent = keyed(scribe, f"turn-{turn}", spread(turn), tombstones=[turn])
            records = {base + n: record for n, record in enumerate(sent)}
            messages = [(offset, record.timestamp, record.key, record.value) for offset, record in records.items()]
            if turn % 4:
                scribe.follow(compressed_wrapper(messages, magic=magic, codec=1 + turn % (2 + magic)), records)
            else:
                for message in messages:
                    scribe.follow(plain_message(*message, magic=magic), {message[0]: records[message[0]]})
        for turn in range(4):
            scribe.send(keyed(scribe, f"late-{turn}", spread(turn, 3)), turn)

    return Case((write, write))


CASES = {
    **{
        f"overwritten-{name}": overwritten(codec)
        for codec, name in enumerate(("none", "gzip", "snappy", "lz4", "zstd"))
    },
    "tombstones": tombstones(),
    "transactions": transactions(),
    "idempotent": idempotent(),
    "append-time": append_time(),
    "full-indexes": full_indexes(),
}
OLD_FORMATS = {"old-formats": old_formats()}

"""Producers of a compacted log: plain ones, idempotent ones (ids 10, 11) and those with transactions (20, 21).

They go on from what the ledger says of them, not from what the log knows: a log that has forgotten them refuses them,
and that is an error. One of whom nothing can be said any more is replaced by one with a greater id.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from support.compaction.model import ABORT, COMMIT, Entry, Ledger, Rec, Seen, Writer
from tailrace.config.log import LogConfig
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import end_txn_marker
from tailrace.sim.clock import SimClock
from tailrace.storage.origin import Origin
from tailrace.storage.unified_log import UnifiedLog

PLAIN: Final = -1
PRODUCERS: Final = (PLAIN, PLAIN, PLAIN, 10, 11, 20, 21)
FIRST_WITH_TRANSACTIONS: Final = 20
REPLACED_BY: Final = 100  # ids further
CODECS: Final = (0, 0, 0, 1, 2, 3, 4)
KEYS: Final = (*(b"k%d" % n for n in range(12)), b"long" * 20)
VALUE_BYTES: Final = (0, 10, 40, 110)


class Pen:
    """Makes batches; no two values are the same."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._values = 0

    def write(self, dice: random.Random, log: UnifiedLog, ledger: Ledger) -> None:
        """Some batches of different producers in one append."""
        writers = ledger.writers()
        sets, entries = [], []
        for producer_id in dice.sample(PRODUCERS, dice.choice((1, 1, 1, 2, 3))):
            while producer_id in ledger.retired - {PLAIN}:
                producer_id += REPLACED_BY
            data, entry = self._batch(dice, producer_id, writers.get(producer_id), log.config)
            sets.append(data)
            entries.append(entry)
        _append(log, ledger, sets, entries, Origin.CLIENT)

    def _batch(
        self, dice: random.Random, producer_id: int, writer: Writer | None, config: LogConfig
    ) -> tuple[bytearray, Entry]:
        """And its entry, as if it stood at offset 0."""
        fields: dict[str, Any] = {}
        if producer_id != PLAIN:
            fields["producer_id"] = producer_id
            fields["producer_epoch"] = 0 if writer is None else writer.producer_epoch
            fields["base_sequence"] = 0 if writer is None else writer.next_sequence
        is_transactional = producer_id != PLAIN and producer_id % REPLACED_BY >= FIRST_WITH_TRANSACTIONS
        builder = BatchBuilder(codec=dice.choice(CODECS), transactional=is_transactional, **fields)
        now_ms = self._clock.now_ms()
        records = []
        for offset in range(dice.choice((1, 1, 2, 3, 4))):
            record = self._record(dice, offset, is_keyless=not config.compacts and dice.random() < 0.1)
            builder.append(record.timestamp, record.key, record.value, record.headers)
            if config.message_timestamp_type == "LogAppendTime":
                record = record._replace(timestamp=now_ms)
            records.append(record)
        entry = Entry(0, len(records) - 1, tuple(records), is_transactional=is_transactional, at_ms=now_ms)
        if fields:
            entry = entry._replace(
                producer_id=producer_id, producer_epoch=fields["producer_epoch"], sequence=fields["base_sequence"]
            )
        return builder.build(), entry

    def _record(self, dice: random.Random, offset: int, *, is_keyless: bool) -> Rec:
        self._values += 1
        value = None if dice.random() < 0.25 else b"%d:" % self._values + dice.randbytes(dice.choice(VALUE_BYTES))
        key = None if is_keyless else dice.choice(KEYS)
        headers = (("h", b"%d" % self._values), ("n", None)) if dice.random() < 0.2 else ()
        return Rec(offset, self._clock.now_ms() - dice.choice((0, 0, 3, 60)), key, value, headers)

    def end_transactions(self, dice: random.Random, log: UnifiedLog, ledger: Ledger) -> None:
        """Most of those that are open. A marker may raise the epoch, as coordinators of transactions version 2 do."""
        for producer_id, writer in ledger.writers().items():
            if producer_id in ledger.retired or writer.open_since is None or dice.random() < 0.3:
                continue
            control = dice.choice((ABORT, COMMIT, COMMIT))
            epoch = writer.producer_epoch + (dice.random() < 0.2)
            now_ms = self._clock.now_ms()
            marker = end_txn_marker(
                control, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=0, timestamp=now_ms
            )
            entry = Entry(0, 0, (), producer_id, epoch, -1, True, control, now_ms)
            if producer_id not in log.producers.producers:
                ledger.retired.add(producer_id)  # the marker leaves an epoch and no sequence: see check_writers
            _append(log, ledger, [marker], [entry], Origin.COORDINATOR)


def _append(log: UnifiedLog, ledger: Ledger, sets: list[bytearray], entries: list[Entry], origin: Origin) -> None:
    """Raises what the log answers; outside of a failing disk that is nothing."""
    offset = log.log_end_offset
    assert offset == ledger.end, f"{log} ends at {offset}, not at {ledger.end}"
    placed = []
    for entry in entries:
        placed.append(_moved(entry, offset))
        offset += entry.last + 1
    ledger.attempted = placed
    results = log.append_as_leader(sets, 0, origin)
    errors = [result.error for result in results if result.error is not None]
    for entry, result in zip(placed, results, strict=True):
        assert result.error is not None or result[:2] == entry[:2], f"{entry} got {result}"
        assert not result.is_duplicate, f"{entry} is no duplicate: {result}"
    taken = len(placed) - len(errors)
    ledger.appended(placed[:taken])
    if errors:
        ledger.attempted = placed[taken:]
        raise errors[0]


def _moved(entry: Entry, offset: int) -> Entry:
    records = tuple(record._replace(offset=record.offset + offset) for record in entry.records)
    return entry._replace(first=offset, last=offset + entry.last, records=records)


def resend(log: UnifiedLog, ledger: Ledger) -> None:
    """What producers send again, since they got no answer, is known and not written again."""
    for producer_id, writer in ledger.writers().items():
        entry = writer.last
        if producer_id in ledger.retired or entry is None:
            continue
        known = log.producers.producers.get(producer_id)
        if (known is None or not known.batches) and entry.last < log.log_start_offset:
            continue  # nothing that survived tells of it
        builder = BatchBuilder(
            producer_id=producer_id,
            producer_epoch=entry.producer_epoch,
            base_sequence=entry.sequence,
            transactional=entry.is_transactional,
        )
        for record in entry.records:
            builder.append(record.timestamp, record.key or b"", record.value, record.headers)
        (result,) = log.append_as_leader([builder.build()], 0)
        if result.error is not None:
            raise result.error
        assert result.is_duplicate, f"{entry} was written again: {result}"
        assert result[:2] == entry[:2], f"{entry} is known as {result}"


def check_writers(log: UnifiedLog, ledger: Ledger, seen: Sequence[Seen]) -> None:
    """That the log knows what it must of every producer.

    One of whom only a marker has survived has an epoch and no sequence; Kafka's log refuses it as ours does. Where the
    marker was cleaned away as well, a recovery that begins before the snapshots knows nothing of the producer.
    """
    start = log.log_start_offset
    surviving = {batch.producer_id for batch in seen}
    for producer_id, writer in ledger.writers().items():
        if producer_id in ledger.retired:
            continue
        known = log.producers.producers.get(producer_id)
        if known is None:
            is_deleted = writer.last is None or writer.last.last < start
            is_cleaned = is_deleted and writer.open_since is None and producer_id not in surviving
            assert writer.at < start or is_cleaned, f"producer {producer_id} is forgotten: {writer}"
            if is_cleaned:
                ledger.retired.add(producer_id)
        elif not known.batches and writer.last is not None and writer.last.last < start:
            ledger.retired.add(producer_id)
        else:
            last_offset = -1 if writer.last is None else writer.last.last
            expected = (writer.producer_epoch, writer.next_sequence - 1, last_offset)
            found = (known.producer_epoch, known.last_seq, known.last_data_offset)
            assert found == expected, f"{known} should be {writer}"
            if writer.open_since is None or writer.open_since >= start:
                assert known.txn_first_offset == writer.open_since, f"{known} should be {writer}"

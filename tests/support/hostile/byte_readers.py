"""Hostile inputs for readers of bytes in memory: batches of any magic, compressed blocks, sets sent to a leader."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from support.hostile.corpus import batch_seeds, codec_seeds, sent_seeds
from support.hostile.mutation import hostile_batches, mutated
from support.hostile.run import Refusal, Target, outcome
from tailrace.model.errors import TailraceError
from tailrace.record.batch import HEADER_BYTES, BatchHeader, check_crc
from tailrace.record.check import check_batch
from tailrace.record.compression import GZIP, blocks, decompress
from tailrace.record.control import control_of
from tailrace.record.filter import filter_batch
from tailrace.record.kernels import BATCH_END, BATCH_ROW, PlainRun
from tailrace.record.legacy import key_and_value, messages_of
from tailrace.record.reader import application_records, records_of
from tailrace.record.shallow import ShallowBatch, batches, check_integrity
from tailrace.record.walk import new_rows, walk_batches, walk_records
from tailrace.storage.append_set import analyse
from tailrace.storage.legacy_conversion import prepare_legacy_set
from tailrace.storage.origin import Origin
from tailrace.storage.validation import ValidatedSet, ValidationRules
from tailrace.storage.validator import admit_plain, plain_rules, prepare_leader_set

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1
NOW_MS = 1_700_000_000_000

MAX_DECOMPRESSED_BYTES = 1 << 18
BATCHES_LOOKED_INTO = 6
RECORD_BYTES = 64  # what the smallest record, of seven bytes, may cost as an object for each of those bytes


def consumed(items: Iterable[Any]) -> tuple[int, Any]:
    """How many there are, and the last one; none is kept."""
    count, last = 0, None
    for item in items:
        count += 1
        last = item
    return count, last


def batches_before_damage(data: bytes) -> Iterator[ShallowBatch]:
    with suppress(TailraceError):
        yield from batches(data)


class BatchCase(NamedTuple):
    data: bytes
    require_key: bool
    earliest_ms: int
    latest_ms: int
    keep_every: int
    delete_horizon_ms: int | None


class Batches(Target[BatchCase]):
    """Every reader of stored or sent batches."""

    name = "batches"
    extra_bytes = RECORD_BYTES * MAX_DECOMPRESSED_BYTES  # the filter holds what it keeps

    def draw(self, chance: random.Random) -> BatchCase:
        return BatchCase(
            bytes(hostile_batches(chance, batch_seeds())),
            chance.random() < 0.2,
            chance.choice((INT64_MIN, INT64_MIN - 5, NOW_MS - 1000, 0)),
            chance.choice((INT64_MAX, INT64_MAX + 5, NOW_MS + 1000)),
            chance.choice((1, 2, 3, 1 << 30)),
            chance.choice((None, None, 0, NOW_MS)),
        )

    def size_of(self, case: BatchCase) -> int:
        return len(case.data)

    def read(self, case: BatchCase) -> object:
        data = case.data
        found: list[ShallowBatch] = []
        end = outcome(lambda: found.extend(batches(data)))
        return (
            end,
            len(found),
            [self._read_batch(case, batch) for batch in islice(found, BATCHES_LOOKED_INTO)],
            outcome(consumed, application_records(data, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)),
            outcome(
                consumed,
                application_records(data, check_crcs=False, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES),
            ),
            self._walk_all(data),
            self._compact_runs(data),
        )

    def _read_batch(self, case: BatchCase, batch: ShallowBatch) -> object:
        data = case.data
        records = outcome(consumed, records_of(data, batch, MAX_DECOMPRESSED_BYTES))
        verdict = [
            batch,
            (batch.codec, batch.timestamp_type, batch.is_control, batch.delete_horizon_ms, batch.last_sequence),
            outcome(check_integrity, data, batch),
            records,
            outcome(control_of, data, batch, MAX_DECOMPRESSED_BYTES),
            self._filter(case, batch),
        ]
        if batch.is_v2:
            verdict += self._check(case, batch, records)
        else:
            verdict.append(outcome(key_and_value, data, batch))
            verdict.append(outcome(consumed, messages_of(data, batch, MAX_DECOMPRESSED_BYTES)))
        return verdict

    def _check(self, case: BatchCase, batch: ShallowBatch, records: Any) -> list[object]:
        data, header = case.data, BatchHeader.at(case.data, batch.position)
        rules = {"require_key": case.require_key, "earliest_ms": case.earliest_ms, "latest_ms": case.latest_ms}
        checked = outcome(check_batch, data, batch.position, header, **rules)
        payload, rows = data[batch.position + HEADER_BYTES : batch.end], None
        if batch.codec:
            payload = outcome(decompress, batch.codec, payload, MAX_DECOMPRESSED_BYTES)
        if isinstance(payload, bytes):
            rows = outcome(walk_records, payload, 0, len(payload), header)
        if not isinstance(checked, Refusal) and isinstance(payload, bytes):
            # What a leader lets in, every reader must be able to read.
            assert records[0] == header.record_count, f"checked as {checked}, but read as {records}"
            assert not isinstance(rows, Refusal), f"checked as {checked}, but walked as {rows}"
        in_less = outcome(check_batch, data[: batch.end - 1], batch.position, header, **rules)
        assert isinstance(in_less, Refusal), "a batch was checked that is not whole in its buffer"
        return [checked, in_less, outcome(check_crc, data, batch.position, header), rows]

    def _filter(self, case: BatchCase, batch: ShallowBatch) -> object:
        kept = outcome(
            filter_batch,
            case.data,
            batch,
            lambda record: record.offset % case.keep_every == 0,
            keep_empty=case.keep_every > 2,
            delete_horizon_ms=case.delete_horizon_ms,
            max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
        )
        if isinstance(kept, bytes) and kept != case.data[batch.position : batch.end]:
            (made,) = batches(kept)
            check_integrity(kept, made)
            assert (made.base_offset, made.last_offset) == (batch.base_offset, batch.last_offset)
            read = consumed(records_of(kept, made, MAX_DECOMPRESSED_BYTES))
            if made.codec == GZIP:  # isal does not make the same bytes of the same records each time
                return made.base_offset, made.last_offset, made.max_timestamp, made.record_count, read
        return kept

    def _walk_all(self, data: bytes) -> object:
        rows = new_rows(40)
        walked = outcome(walk_batches, data, 0, len(data), rows)
        filled = walked[1] if isinstance(walked, tuple) else 0
        return walked, rows[: 8 * filled].tolist()

    def _compact_runs(self, data: bytes) -> object:
        """Both kernels of compaction from each whole batch on, as if the one before were not plain."""
        verdicts: list[object] = []
        obsolete = bytearray(3)
        table, made, out = array("Q", bytes(24 * 50)), array("q", bytes(64 * 20)), bytearray(1 << 16)
        for batch in islice(batches_before_damage(data), BATCHES_LOOKED_INTO):
            run = PlainRun(new_rows(40), bytearray(40), array("q", bytes(16)))
            run.next_offset, run.end_offset = max(batch.base_offset, 0), INT64_MAX
            run.aborted_from = run.framed_from = INT64_MAX - 7
            mapped = run.map(data, batch.position, len(data), table, 0, 40, 1, 2, 0, obsolete, 5)
            verdicts.append((mapped, run.position, run.next_offset, run.entries, run.latest_offset, run.seen_count))
            run.next_offset = max(batch.base_offset, 0)
            sifted = run.sift(
                data,
                batch.position,
                len(data),
                table,
                1,
                2,
                run.latest_offset,
                obsolete,
                5,
                NOW_MS,
                NOW_MS + 5,
                out,
                0,
                made,
                0,
            )
            assert [each.end for each in batches(bytes(out[: run.written]))] == made[
                BATCH_END : BATCH_ROW * run.made_count : BATCH_ROW
            ].tolist()
            verdicts.append((sifted, run.position, run.records_read, run.records_kept, bytes(out[: run.written])))
        return verdicts


class CodecCase(NamedTuple):
    codec: int
    data: bytes
    block_bytes: int


class Codecs(Target[CodecCase]):
    """Decompression, in blocks and at once."""

    name = "codecs"
    max_bytes = 1 << 20
    extra_bytes = 8 * max_bytes

    def draw(self, chance: random.Random) -> CodecCase:
        codec, seed = chance.choice(codec_seeds())
        data = mutated(chance, seed, [each for kind, each in codec_seeds() if kind == codec])
        if chance.random() < 0.1:
            codec = chance.randrange(8)
        return CodecCase(codec, bytes(data), chance.choice((1, 1 << 17, 1 << 18, 1 << 20)))

    def size_of(self, case: CodecCase) -> int:
        return len(case.data)

    def read(self, case: CodecCase) -> object:
        made = bytearray()
        most = max(case.block_bytes, 1 << 17)

        def gather() -> None:
            for block in blocks(case.codec, case.data, case.block_bytes):
                assert 1 <= len(block) <= most, f"a block of {len(block)} bytes, where {most} were asked for"
                made.extend(block)
                if len(made) > self.max_bytes:
                    return

        end = outcome(gather)
        whole = outcome(decompress, case.codec, case.data, self.max_bytes)
        if isinstance(whole, bytes):
            assert bytes(made) == whole, f"blocks made {len(made)} bytes, the whole has {len(whole)}"
        return case.codec, end, len(made), whole if isinstance(whole, Refusal) else len(whole)


class SetCase(NamedTuple):
    data: bytes
    origin: Origin
    rules: ValidationRules
    is_writable: bool
    first_offset: int
    magic: int


class LeaderSets(Target[SetCase]):
    """What a leader does with bytes from a producer."""

    name = "leader sets"
    extra_bytes = 8 << 20

    def draw(self, chance: random.Random) -> SetCase:
        rules = ValidationRules(
            timestamp_type=chance.choice((0, 0, 1)),
            before_max_ms=chance.choice((INT64_MAX, 1000)),
            after_max_ms=chance.choice((INT64_MAX, 3_600_000)),
            require_key=chance.random() < 0.2,
            target_codec=chance.choice((None, None, 0, 1, 2, 3, 4)),
            max_message_bytes=chance.choice((1 << 20, 1 << 20, 300)),
        )
        return SetCase(
            bytes(hostile_batches(chance, sent_seeds() if chance.random() < 0.8 else batch_seeds())),
            chance.choice((Origin.CLIENT, Origin.CLIENT, *Origin)),
            rules,
            chance.random() < 0.7,
            chance.choice((0, 0, 7, 1 << 40)),
            chance.randrange(2),
        )

    def size_of(self, case: SetCase) -> int:
        return len(case.data)

    def read(self, case: SetCase) -> object:
        rules = case.rules
        sums = outcome(
            analyse,
            case.data,
            max_message_bytes=rules.max_message_bytes,
            ignore_size=case.origin is Origin.RAFT_LEADER,
        )
        prepared = self._prepare(
            case,
            prepare_leader_set,
            first_offset=case.first_offset,
            leader_epoch=3,
            now_ms=NOW_MS,
            rules=rules,
            origin=case.origin,
        )
        self._admit_plain(case)
        as_old = self._prepare(
            case, prepare_legacy_set, magic=case.magic, first_offset=case.first_offset, now_ms=NOW_MS, rules=rules
        )
        return sums if isinstance(sums, Refusal) else sums[1:], prepared, as_old

    def _admit_plain(self, case: SetCase) -> None:
        """The short way takes a set as the other does, or leaves it as it came."""
        rules = plain_rules(case.rules, NOW_MS)
        if rules is None or case.origin is not Origin.CLIENT:
            return
        mine, other = bytearray(case.data), bytearray(case.data)
        batch = admit_plain(mine, case.first_offset, 3, rules)
        if batch is None:
            assert mine == case.data
            return
        prepared = prepare_leader_set(
            other,
            first_offset=case.first_offset,
            leader_epoch=3,
            now_ms=NOW_MS,
            rules=case.rules,
            origin=case.origin,
        )
        assert prepared is not None
        assert prepared.batches == (batch,)
        assert mine == other

    def _prepare(self, case: SetCase, prepare: Any, **kwargs: Any) -> object:
        buffer = bytearray(case.data) if case.is_writable else case.data
        prepared = outcome(prepare, buffer, **kwargs)
        if prepared is None or isinstance(prepared, Refusal) or not case.is_writable:
            assert bytes(buffer) == case.data, f"changed, though the answer was {prepared}"
        if not isinstance(prepared, ValidatedSet):
            return prepared
        _check_prepared(prepared, case.first_offset)
        if prepared.size_changed and any(batch.codec == GZIP for batch in prepared.batches):
            # The compressor of isal does not give the same bytes for the same data each time.
            found = [each for batch in prepared.batches for each in records_of(prepared.buffer, batch, 1 << 24)]
            return found, prepared[2:]
        return bytes(prepared.buffer), prepared[1:]


def _check_prepared(prepared: ValidatedSet, first_offset: int) -> None:
    """What a leader is about to write is whole, proven, and has the offsets from its end on."""
    try:
        following = first_offset
        for batch in batches(bytes(prepared.buffer)):
            check_integrity(prepared.buffer, batch)
            count, last = consumed(records_of(prepared.buffer, batch, 1 << 24))
            assert last.offset == following + count - 1 == batch.last_offset, (batch, last)
            following += count
        assert following == prepared.last_offset + 1
    except TailraceError as error:
        raise AssertionError(f"a leader took {prepared}, which cannot be read") from error


TARGETS: tuple[Target[Any], ...] = (Batches(), Codecs(), LeaderSets())

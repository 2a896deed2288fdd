"""A leader's append: offsets, epochs, timestamps, what is refused, and that nothing else happens then."""

from __future__ import annotations

import pytest
from foreign_sets import MESSAGES, produced, seen

from support.logs.builders import (
    CONFIG,
    DIRECTORY,
    NOW_MS,
    TOPIC_ID,
    SimLog,
    batch,
    bytes_of,
    file_bytes,
    holds,
    in_transaction,
    marker,
    offsets,
    placed,
    produced_by,
    sized_batch,
    sound,
    with_config,
)
from tailrace.model.errors import (
    CorruptMessageError,
    InconsistentTopicIdError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    OutOfOrderSequenceError,
    RecordListTooLargeError,
)
from tailrace.model.ids import TopicId
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.record.batch import CRC_AT, LOG_APPEND_TIME, MAGIC_AT, crc_of
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.fetch import Isolation
from tailrace.storage.origin import Origin

LZ4 = 3


@pytest.fixture
def sim() -> SimLog:
    return SimLog()


@pytest.mark.spec("LS-10")
def test_every_step_of_a_transactional_append_has_happened_when_it_returns(sim: SimLog) -> None:
    sim.append(batch(2), epoch=4)
    [result] = sim.append(in_transaction(9, 0, count=3), epoch=5)
    log = sim.log
    assert (result.first_offset, result.last_offset, result.log_append_time_ms) == (2, 4, -1)
    assert log.log_end_offset == 5
    assert [each.leader_epoch for each in sound(bytes_of(log))] == [4, 5]
    assert log.epochs.entries == (EpochEntry(4, 0), EpochEntry(5, 2))
    known = log.producers.producers[9]
    assert (known.last_seq, known.last_data_offset, known.txn_first_offset) == (2, 4, 2)
    sim.all_moved_to_end()
    assert log.last_stable_offset == 2
    sim.append(marker(9, commit=False), epoch=5, origin=Origin.COORDINATOR)
    assert log.aborted_transactions(0, 10) == ((9, 2, 5, 6),)
    assert log.last_stable_offset == 2  # the marker is not replicated yet
    sim.all_moved_to_end()
    assert log.last_stable_offset == 6


@pytest.mark.spec("LS-10", "LS-11", "RF-19")
@pytest.mark.parametrize("codec", range(5))
def test_a_foreign_clients_batch_is_stored_as_it_came_but_for_the_brokers_fields(sim: SimLog, codec: int) -> None:
    sim.fill(7)
    is_foreign = codec not in (2, 4)  # the foreign client needs libraries of its own for snappy and zstd
    sent = produced(MESSAGES, codec=codec) if is_foreign else batch(3, 300, codec=codec)
    original = bytes(sent)
    sim.append(sent, epoch=3)
    stored = sim.log.read(7, 1 << 20).read()
    assert stored == placed(original, 7, leader_epoch=3)  # no byte but offset and epoch differs, the CRC still holds
    assert offsets(stored) == [(7, 9)]
    if is_foreign:
        assert [(each.timestamp, each.key, each.value) for each in seen(stored)] == MESSAGES


@pytest.mark.spec("LS-11")
def test_the_producers_own_buffer_is_written_when_its_codec_is_kept(sim: SimLog) -> None:
    sim.fill(4)
    sent = batch(2, codec=LZ4)
    sim.append(sent, epoch=1)
    assert offsets(sent) == [(4, 5)]  # patched where it lay: nothing was unpacked or copied


@pytest.mark.spec("LS-11", "LS-41")
def test_only_a_topic_with_a_codec_of_its_own_packs_anew() -> None:
    sim = SimLog(with_config(compression_type="lz4"))
    sim.append(produced(MESSAGES, codec=1))
    [stored] = sound(bytes_of(sim.log))
    assert stored.codec == LZ4
    assert [(each.timestamp, each.key, each.value) for each in seen(bytes_of(sim.log))] == MESSAGES


@pytest.mark.spec("LS-41", "LS-10")
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_old_formats_are_rebuilt_as_one_batch_of_the_new_one(sim: SimLog, magic: int, codec: int) -> None:
    sim.fill(5)
    [result] = sim.append(produced(MESSAGES, magic=magic, codec=codec), epoch=2)
    assert (result.first_offset, result.last_offset) == (5, 7)
    stored = sim.log.read(5, 1 << 20).read()
    [only] = sound(stored)
    assert (only.magic, only.base_offset, only.last_offset, only.leader_epoch) == (2, 5, 7, 2)
    assert [(each.key, each.value) for each in seen(stored)] == [(key, value) for _, key, value in MESSAGES]
    if magic == 1:
        assert [each.timestamp for each in seen(stored)] == [timestamp for timestamp, _, _ in MESSAGES]


@pytest.mark.spec("LS-41")
def test_a_compressed_batch_is_unpacked_to_be_checked(sim: SimLog) -> None:
    damaged = batch(3, 50, codec=LZ4)
    record_count_at = 57
    damaged[record_count_at + 3] = 9  # three records inside
    with pytest.raises(CorruptMessageError):
        sim.append(damaged)
    damaged[CRC_AT : CRC_AT + 4] = crc_of(damaged, 0, len(damaged)).to_bytes(4, "big")
    with pytest.raises(InvalidRecordError):
        sim.append(damaged)
    assert bytes_of(sim.log) == b""


@pytest.mark.spec("LS-12")
@pytest.mark.parametrize(("late_ms", "is_taken"), [(-1000, True), (-1001, False), (500, True), (501, False)])
def test_create_time_is_held_to_the_topics_bounds(late_ms: int, is_taken: bool) -> None:
    sim = SimLog(with_config(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500))
    sent = batch(1, timestamp=sim.world.clock.now_ms() + late_ms)
    [result] = sim.log.append_as_leader([sent], 0)
    assert isinstance(result.error, InvalidTimestampError) is not is_taken
    assert holds(sim.log) == ([(0, 0)] if is_taken else [])


@pytest.mark.spec("LS-12")
def test_log_append_time_stamps_the_brokers_clock_and_the_type_bit() -> None:
    sim = SimLog(with_config(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=0))
    sim.world.clock.advance(12_345)
    [result] = sim.append(batch(2, timestamp=5, step_ms=1))
    [stored] = sound(bytes_of(sim.log))  # the CRC was made anew
    assert result.log_append_time_ms == stored.max_timestamp == NOW_MS + 12_345
    assert stored.timestamp_type == LOG_APPEND_TIME
    assert [each.timestamp for each in seen(bytes_of(sim.log))] == [NOW_MS + 12_345] * 2


@pytest.mark.spec("LS-40")
def test_epochs_are_noted_batch_by_batch_before_size_roll_and_producers_are_looked_at(sim: SimLog) -> None:
    sim.append(produced_by(1, 0), epoch=1)
    refusals = [
        (2, sized_batch(CONFIG.segment_bytes + 1), RecordListTooLargeError),
        (3, produced_by(1, 7), OutOfOrderSequenceError),
    ]
    sim.log.use_config(with_config(max_message_bytes=2 * CONFIG.segment_bytes))
    for epoch, sent, kind in refusals:
        [result] = sim.log.append_as_leader([sent], epoch)
        assert isinstance(result.error, kind)
        assert sim.log.epochs.latest_entry == EpochEntry(epoch, 1)
    [repeated] = sim.append(produced_by(1, 0), epoch=4)
    assert repeated.is_duplicate
    assert sim.log.epochs.latest_entry == EpochEntry(4, 1)


@pytest.mark.spec("LS-40")
def test_end_and_watermark_know_their_place_after_the_write(sim: SimLog) -> None:
    sim.append(sized_batch(100), sized_batch(200))
    assert sim.log.local.end == LogOffsetMetadata(2, 0, 300)
    sim.all_moved_to_end()
    assert sim.log.high_watermark_metadata() == LogOffsetMetadata(2, 0, 300)
    sim.log.roll()
    assert sim.log.high_watermark_metadata() == LogOffsetMetadata(2, 2, 0)
    sim.append(sized_batch(100))
    assert sim.log.local.end == LogOffsetMetadata(3, 2, 100)
    assert sim.log.high_watermark_metadata() == LogOffsetMetadata(2, 2, 0)


@pytest.mark.spec("LS-39")
@pytest.mark.parametrize("sent", [b"", bytes(batch(1))[:-1], bytes(batch(1))[:11]])
def test_an_append_without_a_whole_batch_changes_nothing(sim: SimLog, sent: bytes) -> None:
    sim.fill(3)
    sim.tape.rewind()
    [result] = sim.append(sent)
    assert (result.first_offset, result.last_offset, sim.log.log_end_offset) == (-1, -1, 3)
    assert sim.tape.of("write", "create", "truncate", "sync", "rename") == []


@pytest.mark.spec("LS-39")
def test_bytes_behind_the_last_whole_batch_are_trimmed(sim: SimLog) -> None:
    whole = batch(2)
    [result] = sim.append(whole + batch(5)[:-3])
    assert (result.first_offset, result.last_offset) == (0, 1)
    assert file_bytes(sim.world, "00000000000000000000.log") == placed(whole, 0)


@pytest.mark.spec("RF-10")
def test_a_batch_over_max_message_bytes_is_refused_and_nothing_written() -> None:
    sim = SimLog(with_config(max_message_bytes=500))
    sim.append(sized_batch(500))
    sim.tape.rewind()
    [result] = sim.log.append_as_leader([sized_batch(501)], 0)
    assert isinstance(result.error, MessageTooLargeError)
    assert result.error.code == 10
    assert sim.tape.of("write") == []
    assert sim.log.log_end_offset == 1


@pytest.mark.spec("LS-37")
def test_a_set_larger_than_a_segment_is_refused_and_nothing_written() -> None:
    sim = SimLog(with_config(max_message_bytes=1 << 22))
    limit = sim.config.segment_bytes
    sim.append(sized_batch(limit))
    sim.tape.rewind()
    [result] = sim.log.append_as_leader([sized_batch(limit + 1)], 0)
    assert isinstance(result.error, RecordListTooLargeError)
    assert result.error.code == 18
    assert sim.tape.of("write", "create") == []
    several = batch(1, limit // 2) + batch(1, limit // 2)
    [result] = sim.log.append_as_leader([several], 0, Origin.COORDINATOR)
    assert isinstance(result.error, RecordListTooLargeError)
    assert holds(sim.log) == [(0, 0)]


@pytest.mark.spec("LS-36")
def test_the_topic_id_is_durable_before_the_first_byte_of_data() -> None:
    sim = SimLog(topic_id=TOPIC_ID)
    assert "partition.metadata" not in sim.names()
    sim.tape.rewind()
    sim.append(batch(1))
    changes = [call for call in sim.tape.calls if call[0] in ("write", "sync", "rename", "sync_dir")]
    first_data = changes.index(("write", f"{DIRECTORY}/00000000000000000000.log"))
    before = changes[:first_data]
    assert [op for op, _ in before if op != "write"][:3] == ["sync", "rename", "sync_dir"]
    assert all("partition.metadata" in path for op, path in before[:3])
    assert file_bytes(sim.world, "partition.metadata") == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.spec("LS-36")
def test_a_directory_of_another_topic_is_never_served() -> None:
    sim = SimLog(topic_id=TOPIC_ID)
    sim.append(batch(1))
    other = TopicId(bytes(15) + b"\1")
    with pytest.raises(InconsistentTopicIdError):
        sim.log.assign_topic_id(other)
    sim.log.close()
    with pytest.raises(InconsistentTopicIdError, match="belongs to topic id AAECAwQF"):
        sim.open(topic_id=other, was_clean=True)
    assert sim.open(was_clean=True).topic_id == TOPIC_ID


@pytest.mark.spec("LS-29")
def test_each_of_the_last_five_batches_sent_again_is_answered_with_its_first_offsets(sim: SimLog) -> None:
    sim.fill(10)
    for n in range(6):
        sim.append(produced_by(7, 2 * n, count=2, timestamp=NOW_MS + n))
    before = bytes_of(sim.log)
    for n in range(1, 6):
        [again] = sim.append(produced_by(7, 2 * n, count=2, timestamp=NOW_MS + n))
        assert again.is_duplicate
        assert (again.first_offset, again.last_offset) == (10 + 2 * n, 11 + 2 * n)
    [too_old] = sim.log.append_as_leader([produced_by(7, 0, count=2)], 0)
    assert isinstance(too_old.error, OutOfOrderSequenceError)
    assert bytes_of(sim.log) == before


@pytest.mark.spec("LS-29")
def test_sequence_gaps_and_stale_epochs_are_refused_with_their_codes(sim: SimLog) -> None:
    sim.append(produced_by(7, 0, count=3, epoch=2))
    [gap] = sim.log.append_as_leader([produced_by(7, 4, epoch=2)], 0)
    [stale] = sim.log.append_as_leader([produced_by(7, 3, epoch=1)], 0)
    assert isinstance(gap.error, OutOfOrderSequenceError)
    assert isinstance(stale.error, InvalidProducerEpochError)
    assert (gap.error.code, stale.error.code) == (45, 47)
    assert holds(sim.log) == [(0, 2)]
    sim.append(produced_by(7, 3, epoch=2))
    sim.append(produced_by(7, 0, epoch=3))
    assert sim.log.log_end_offset == 5


@pytest.mark.spec("LS-29")
def test_producers_are_known_again_after_a_restart(sim: SimLog) -> None:
    sim.append(produced_by(7, 0, count=3))
    sim.kill_and_open()
    [again] = sim.append(produced_by(7, 0, count=3))
    assert again.is_duplicate
    sim.append(produced_by(7, 3))


def test_refused_bytes_leave_the_log_as_it_was(sim: SimLog) -> None:
    sim.fill(2)
    good = batch(2)
    bad_crc, bad_magic = bytearray(good), bytearray(good)
    bad_crc[-1] ^= 1
    bad_magic[MAGIC_AT] = 9
    results = sim.log.append_as_leader([bad_crc, bad_magic], 0)
    assert [type(result.error) for result in results] == [CorruptMessageError, CorruptMessageError]
    assert sim.log.read(0, 1000, Isolation.LOG_END).read() == bytes_of(sim.log)
    assert holds(sim.log) == [(0, 0), (1, 1)]

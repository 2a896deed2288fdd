from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from foreign_sets import HOUR_MS, LOG_APPEND_RULES, MESSAGES, NOW_MS, RULES, Seen, entries, produced, seen
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.config.log import LogConfig
from tailrace.env.files import Buffer
from tailrace.model.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    TailraceError,
    UnsupportedCompressionError,
)
from tailrace.record.batch import BatchHeader, crc_of
from tailrace.record.builder import BatchBuilder, batch_of
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches
from tailrace.storage.origin import Origin
from tailrace.storage.validator import ValidatedSet, ValidationRules, prepare_leader_set

CODECS = [0, 1, 3, 4]  # kafka-python needs one more library for snappy
LEADER_FIELDS = slice(0, 16)  # base offset, length, leader epoch


def prepare(
    records: Buffer, rules: ValidationRules = RULES, origin: Origin = Origin.CLIENT, first_offset: int = 1000
) -> ValidatedSet:
    prepared = prepare_leader_set(
        records, first_offset=first_offset, leader_epoch=7, now_ms=NOW_MS, rules=rules, origin=origin
    )
    assert prepared is not None
    assert list(batches(prepared.buffer)) == list(prepared.batches)  # as the bytes say
    return prepared


def forged(records: Buffer, **fields: int) -> bytearray:
    """A batch with other header fields under a CRC that holds."""
    out = bytearray(records)
    out[:61] = BatchHeader.at(out)._replace(**fields).pack()
    struct.pack_into(">I", out, 17, crc_of(out, 0, len(out)))
    return out


def seen_at(first_offset: int, timestamp_type: int = 0, timestamp: int | None = None) -> list[Seen]:
    return [
        Seen(first_offset + i, sent if timestamp is None else timestamp, timestamp_type, key, value)
        for i, (sent, key, value) in enumerate(MESSAGES)
    ]


@pytest.mark.spec("LS-11", "RF-19")
@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_with_its_codec_kept_is_patched_where_it_lies(codec: int) -> None:
    records = produced(codec=codec)
    sent = bytes(records)

    prepared = prepare(records)

    assert isinstance(prepared.buffer, memoryview)
    assert prepared.buffer.obj is records
    assert not prepared.size_changed
    assert records[16:] == sent[16:]  # from the magic on, CRC and payload too
    assert struct.unpack_from(">qii", records) == (1000, len(sent) - 12, 7)
    assert seen(records) == seen_at(1000)
    assert (prepared.first_offset, prepared.last_offset) == (1000, 1002)
    assert (prepared.max_timestamp, prepared.offset_of_max_timestamp) == (NOW_MS - 1, 1002)
    assert prepared.log_append_time_ms == -1


@pytest.mark.spec("LS-11")
@pytest.mark.parametrize("target", CODECS)
@pytest.mark.parametrize("source", CODECS)
def test_another_codec_is_packed_anew_with_everything_else_kept(source: int, target: int) -> None:
    records = produced(codec=source, headers=True, producer_id=5, producer_epoch=2, base_sequence=9, transactional=True)
    sent = bytes(records)
    before = BatchHeader.at(records)

    prepared = prepare(records, RULES._replace(target_codec=target))

    after = BatchHeader.at(prepared.buffer)
    assert prepared.size_changed is (source != target)
    if source != target:
        assert records == sent
    assert after.codec == target
    assert after._replace(base_offset=0, leader_epoch=before.leader_epoch, attributes=0, length=0, crc=0) == (
        before._replace(attributes=0, length=0, crc=0)
    )
    assert after.is_transactional
    assert seen(prepared.buffer) == seen_at(1000)
    (entry,) = entries(prepared.buffer)
    assert [record.headers for record in entry] == [[("trace", b"id")]] * 3
    assert prepared.batches[0].codec == target


@pytest.mark.spec("LS-41")
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_records_in_a_compressed_batch_are_checked(codec: int) -> None:
    keyless = batch_of([(NOW_MS, b"k", b"v"), (NOW_MS, None, b"v")], codec=codec)

    assert prepare(bytearray(keyless)).last_offset == 1001
    with pytest.raises(InvalidRecordError) as refused:
        prepare(keyless, RULES._replace(require_key=True))
    assert refused.value.record_index == 1


def test_a_part_of_a_greater_buffer_is_patched_alone() -> None:
    records = produced()
    request = bytearray(b"before") + records + b"behind"

    prepared = prepare(memoryview(request)[6:-6])

    assert seen(prepared.buffer) == seen_at(1000)
    assert (request[:6], request[-6:]) == (b"before", b"behind")
    assert request[6:-6] == prepared.buffer


def test_a_buffer_that_cannot_be_written_to_is_copied() -> None:
    records = bytes(produced())

    prepared = prepare(records)

    assert records == produced()
    assert seen(prepared.buffer) == seen_at(1000)


@pytest.mark.spec("LS-39")
def test_a_set_without_a_whole_batch_is_nothing() -> None:
    for records in (b"", bytearray(produced()[:-1]), bytearray(produced()[:30])):
        assert (
            prepare_leader_set(
                records, first_offset=0, leader_epoch=0, now_ms=NOW_MS, rules=RULES, origin=Origin.CLIENT
            )
            is None
        )


@pytest.mark.spec("LS-39")
def test_bytes_behind_the_batch_are_left_out() -> None:
    whole = produced()

    prepared = prepare(whole + produced()[:50])

    assert len(prepared.buffer) == len(whole)
    assert seen(prepared.buffer) == seen_at(1000)


# Timestamps


@pytest.mark.spec("LS-12")
@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_stamps_the_leaders_clock_and_the_type_bit(codec: int) -> None:
    records = produced(codec=codec)
    payload = bytes(records[61:])

    prepared = prepare(records, LOG_APPEND_RULES)

    assert seen(prepared.buffer) == seen_at(1000, timestamp_type=1, timestamp=NOW_MS)
    assert records[61:] == payload
    assert (prepared.max_timestamp, prepared.offset_of_max_timestamp) == (NOW_MS, 1002)
    assert prepared.log_append_time_ms == NOW_MS


@pytest.mark.spec("LS-12")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("timestamp", "accepted"),
    [
        (NOW_MS - HOUR_MS, True),
        (NOW_MS - HOUR_MS - 1, False),
        (NOW_MS + 1000, True),
        (NOW_MS + 1001, False),
        (-1, True),  # a record without a timestamp
    ],
)
def test_create_time_is_held_between_its_bounds(codec: int, timestamp: int, accepted: bool) -> None:
    records = batch_of([(NOW_MS, b"k", b"v"), (timestamp, b"k", b"v")], codec=codec)
    rules = RULES._replace(before_max_ms=HOUR_MS, after_max_ms=1000)

    if accepted:
        assert prepare(records, rules).max_timestamp == max(NOW_MS, timestamp)
    else:
        with pytest.raises(InvalidTimestampError):
            prepare(records, rules)
        assert prepare(records, rules._replace(timestamp_type=1)).max_timestamp == NOW_MS


@pytest.mark.spec("LS-12")
def test_bounds_without_limit_take_every_timestamp() -> None:
    rules = RULES._replace(after_max_ms=2**63 - 1)

    assert prepare(batch_of([(0, b"k", b"v"), (2**63 - 1, b"k", b"v")]), rules).max_timestamp == 2**63 - 1


@pytest.mark.parametrize("codec", CODECS)
def test_the_greatest_timestamp_comes_from_the_records(codec: int) -> None:
    lying = forged(produced(codec=codec), max_timestamp=NOW_MS + 10 * HOUR_MS)

    prepared = prepare(lying)

    assert prepared.max_timestamp == NOW_MS - 1
    assert entries(prepared.buffer)[0].max_timestamp == NOW_MS - 1
    assert seen(prepared.buffer) == seen_at(1000)


def test_a_batch_without_timestamps_has_no_greatest() -> None:
    prepared = prepare(batch_of([(-1, b"k", b"v")]))

    assert (prepared.max_timestamp, prepared.offset_of_max_timestamp) == (-1, -1)


@pytest.mark.parametrize("rules", [RULES, LOG_APPEND_RULES])
def test_a_producer_may_not_set_log_append_time(rules: ValidationRules) -> None:
    with pytest.raises(InvalidTimestampError, match="LogAppendTime"):
        prepare(forged(produced(), attributes=8), rules)


# What is refused


@pytest.mark.spec("RF-10")
def test_a_batch_over_max_message_bytes_is_refused() -> None:
    records = produced()
    rules = RULES._replace(max_message_bytes=len(records) - 1)

    with pytest.raises(MessageTooLargeError):
        prepare(records, rules)
    assert records == produced()
    assert prepare(records, RULES._replace(max_message_bytes=len(records))).last_offset == 1002
    assert prepare(produced(), rules, Origin.RAFT_LEADER).last_offset == 1002


@pytest.mark.spec("RF-10")
def test_a_batch_that_grew_when_it_was_rebuilt_is_measured_again() -> None:
    records = produced([(NOW_MS, b"k", b"v" * 5000)], codec=1)
    rules = RULES._replace(max_message_bytes=1000, target_codec=0)

    assert len(records) < 1000
    with pytest.raises(MessageTooLargeError):
        prepare(records, rules)


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_batch_that_expands_without_end_is_not_unpacked_whole(codec: int) -> None:
    bomb = batch_of([(NOW_MS, b"k", bytes(20 << 20))], codec=codec)
    target = 1 if codec == 4 else 4

    with pytest.raises(MessageTooLargeError):
        prepare(bomb, RULES._replace(target_codec=target, max_message_bytes=200_000))


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": 0, "last_offset_delta": -1},
        {"record_count": 0},
        {"record_count": -1},
        {"record_count": 2, "last_offset_delta": 1},
        {"record_count": 4, "last_offset_delta": 3},
        {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"last_offset_delta": 1},
        {"last_offset_delta": -1},
        {"last_offset_delta": 2**31 - 1},
        {"base_offset": 1},
        {"base_offset": -1},
        {"attributes": 0x20},
        {"attributes": 0x10},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": -1},
        {"producer_id": 5, "producer_epoch": -1, "base_sequence": 0},
    ],
    ids=str,
)
def test_a_header_that_breaks_a_rule_is_an_invalid_record(fields: dict[str, int]) -> None:
    records = forged(produced(), **fields)
    sent = bytes(records)

    with pytest.raises(InvalidRecordError):
        prepare(records)
    assert records == sent
    with pytest.raises(InvalidRecordError):
        prepare(sent)  # and on the way of sets that are not one whole writable batch


@pytest.mark.spec("RF-11")
def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="0 records"):
        prepare(forged(produced()[:61], length=49, record_count=0, last_offset_delta=-1))


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionError):
        prepare(forged(produced(), attributes=codec))


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("place", [17, 21, 40, -1])
def test_a_wrong_crc_is_damage(place: int) -> None:
    records = produced()
    records[place] ^= 0x40

    with pytest.raises(CorruptMessageError):
        prepare(records)
    with pytest.raises(CorruptMessageError):
        prepare(bytes(records))


@pytest.mark.spec("RF-11")
def test_a_client_sends_one_batch_and_one_magic() -> None:
    with pytest.raises(InvalidRecordError, match="2 batches"):
        prepare(produced() + produced())
    for first, second in ((2, 1), (1, 2), (1, 0)):
        with pytest.raises(InvalidRecordError):
            prepare(produced(magic=first) + produced(magic=second), origin=Origin.COORDINATOR)


@pytest.mark.spec("RF-11")
@settings(max_examples=examples(300))
@given(
    st.integers(17, 90),
    st.integers(0, 255),
    st.sampled_from(CODECS),
    st.sampled_from([RULES, LOG_APPEND_RULES, RULES._replace(target_codec=1), RULES._replace(require_key=True)]),
    st.booleans(),
)
def test_no_byte_under_a_right_crc_does_more_than_a_typed_error(
    place: int, byte: int, codec: int, rules: ValidationRules, writable: bool
) -> None:
    records = produced(codec=codec)
    records[min(place, len(records) - 1)] = byte
    struct.pack_into(">I", records, 17, crc_of(records, 0, len(records)))
    try:
        prepared = prepare(records if writable else bytes(records), rules)
    except TailraceError:
        return
    (batch,) = prepared.batches
    assert [record.offset for record in records_of(prepared.buffer, batch)] == [1000, 1001, 1002]


# Coordinators


def marker(producer_id: int) -> bytearray:
    return batch_of(
        [(NOW_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")],
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


@pytest.mark.parametrize("origin", [Origin.COORDINATOR, Origin.RAFT_LEADER])
def test_a_coordinator_may_send_several_batches_and_markers(origin: Origin) -> None:
    records = produced() + marker(5) + produced([(NOW_MS + 2, b"k", b"v")])

    prepared = prepare(records, origin=origin)

    assert [(b.base_offset, b.last_offset, b.leader_epoch) for b in prepared.batches] == [
        (1000, 1002, 7),
        (1003, 1003, 7),
        (1004, 1004, 7),
    ]
    assert isinstance(prepared.buffer, memoryview)
    assert prepared.buffer.obj is records
    assert (prepared.max_timestamp, prepared.offset_of_max_timestamp) == (NOW_MS + 2, 1004)
    assert [record.offset for record in seen(prepared.buffer)] == [1000, 1001, 1002, 1003, 1004]


def test_markers_keep_their_bytes_where_the_topic_has_a_codec() -> None:
    records = marker(5) + produced()

    prepared = prepare(records, RULES._replace(target_codec=4), Origin.COORDINATOR)

    assert [b.codec for b in prepared.batches] == [0, 4]
    assert prepared.batches[0].is_control
    assert [record.offset for record in seen(prepared.buffer)] == [1000, 1001, 1002, 1003]


def test_one_bad_batch_leaves_the_set_as_it_came() -> None:
    records = produced() + forged(produced(), record_count=9, last_offset_delta=8)
    sent = bytes(records)

    with pytest.raises(InvalidRecordError):
        prepare(records, origin=Origin.COORDINATOR)
    assert records == sent


@pytest.mark.parametrize(
    ("settings_of_topic", "expected"),
    [
        ({}, ValidationRules(0, 2**63 - 1, HOUR_MS, False, None, 1_048_588)),
        (
            {
                "message.timestamp.type": "LogAppendTime",
                "message.timestamp.before.max.ms": "5",
                "message.timestamp.after.max.ms": "6",
                "cleanup.policy": "compact,delete",
                "compression.type": "zstd",
                "max.message.bytes": "99",
            },
            ValidationRules(1, 5, 6, True, 4, 99),
        ),
        ({"compression.type": "uncompressed"}, RULES._replace(target_codec=0)),
    ],
)
def test_rules_come_from_the_topics_settings(settings_of_topic: dict[str, str], expected: ValidationRules) -> None:
    assert ValidationRules.of(LogConfig.of(settings_of_topic)) == expected


# Older magics


@pytest.mark.spec("LS-41")
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("source", [0, 1])
@pytest.mark.parametrize("target", [None, 0, 3, 4])
@pytest.mark.parametrize("make", [bytes, bytearray])
def test_older_magics_become_one_v2_batch(
    magic: int, source: int, target: int | None, make: Callable[[bytearray], Buffer]
) -> None:
    records = make(produced(magic=magic, codec=source))
    given = bytes(records)

    prepared = prepare(records, RULES._replace(target_codec=target))

    (entry,) = entries(prepared.buffer)
    assert (entry.magic, entry.leader_epoch, entry.producer_id) == (2, 7, -1)
    assert entry.compression_type == (source if target is None else target)
    assert seen(prepared.buffer) == seen_at(1000, timestamp=-1 if magic == 0 else None)
    assert prepared.size_changed
    assert prepared.max_timestamp == (-1 if magic == 0 else NOW_MS - 1)
    assert records == given


@pytest.mark.spec("LS-12", "LS-41")
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("source", [0, 1])
def test_older_magics_under_log_append_time(magic: int, source: int) -> None:
    prepared = prepare(produced(magic=magic, codec=source), LOG_APPEND_RULES)

    assert seen(prepared.buffer) == seen_at(1000, timestamp_type=1, timestamp=NOW_MS)
    assert prepared.log_append_time_ms == NOW_MS


@pytest.mark.spec("RF-19", "LS-39")
@pytest.mark.parametrize("codec", range(5))
def test_a_batch_before_a_partial_one_keeps_its_payload_bytes(codec: int) -> None:
    """The long way: the set is analysed batch by batch, and what is kept must not be packed again."""
    builder = BatchBuilder(codec=codec)
    for n in range(20):
        builder.append(1000, b"key", b"value %d" % n)
    batch = bytes(builder.build())
    prepared = prepare_leader_set(
        bytearray(batch + batch[:100]),
        first_offset=70,
        leader_epoch=4,
        now_ms=1000,
        rules=ValidationRules.of(LogConfig()),
        origin=Origin.CLIENT,
    )
    assert prepared is not None
    written = bytes(prepared.buffer)
    assert written[16:] == batch[16:]
    assert BatchHeader.at(written)[:3] == (70, len(batch) - 12, 4)

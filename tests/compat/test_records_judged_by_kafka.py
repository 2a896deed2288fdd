"""Batches that we made, read by Kafka's DumpLogSegments: it must see the records that we put in.

One run of the tool reads all logs; each test looks at one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.kafka.tools import FileDump, KafkaComplaintError, dump_log_segments
from tailrace.record.batch import LOG_APPEND_TIME
from tailrace.record.builder import BatchBuilder, batch_of, empty_batch
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.filter import filter_batch
from tailrace.record.legacy import compressed_wrapper, plain_message
from tailrace.record.shallow import batches

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("kafka_jars")]

T0 = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# (timestamp, key, value, headers)
Sent = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
ODD: list[Sent] = [
    (T0, b"plain", b"value", ()),
    (T0 - 5, None, b"null key", ()),
    (T0 + 70_000, b"null value", None, ()),
    (T0 + 1, None, None, ()),
    (T0 + 2, b"", b"", ()),
    (T0 + 3, b"headers", b"x" * 200, (("a", b"1"), ("b", None), ("a", b""))),
    (T0 + 4, "ключ".encode(), "値\nover two lines".encode(), (("é", b"\x00\xff"),)),
]
# Enough for several blocks of every codec, and neither all alike nor random.
LONG: list[Sent] = [
    (T0 + n, b"%d" % n, b"".join(b"%d," % (n * i * 7919 % 100_003) for i in range(4000)), ()) for n in range(12)
]


def plain_codec(codec: int) -> bytes:
    return bytes(batch_of(ODD, codec=codec)) + bytes(batch_of(LONG, codec=codec, base_offset=len(ODD)))


def producers() -> bytes:
    """Leader epochs, sequences that wrap, transactions and what ends them."""
    small = ODD[:3]
    who = {"producer_id": 77, "producer_epoch": 3}
    return b"".join(
        bytes(part)
        for part in (
            batch_of(small, leader_epoch=4, base_sequence=2_147_483_646, **who),
            batch_of(small, base_offset=3, leader_epoch=4, base_sequence=1, transactional=True, codec=4, **who),
            end_txn_marker(ABORT, coordinator_epoch=9, timestamp=T0, base_offset=6, leader_epoch=5, **who),
            batch_of(small, base_offset=7, leader_epoch=5, base_sequence=4, transactional=True, **who),
            end_txn_marker(COMMIT, coordinator_epoch=10, timestamp=T0 + 9, base_offset=10, leader_epoch=5, **who),
        )
    )


def append_time() -> bytes:
    stamped = {"timestamp_type": LOG_APPEND_TIME, "log_append_time_ms": T0 + 999}
    return b"".join(bytes(batch_of(ODD, base_offset=codec * len(ODD), codec=codec, **stamped)) for codec in range(5))


def filtered() -> bytes:
    """Batches that lost their first, middle, last and all records; horizons; a marker with one."""
    out = b""
    keeps: Sequence[Callable[[int], bool]] = (lambda n: n > 2, lambda n: n in (0, 6), lambda n: n < 3, lambda n: False)
    for turn, keep in enumerate(keeps):
        for codec in range(5):
            base = (turn * 5 + codec) * len(ODD)
            whole = batch_of(ODD, base_offset=base, codec=codec, producer_id=5, producer_epoch=0, base_sequence=base)
            [batch] = batches(whole)
            horizon = T0 + 86_400_000 if turn % 2 else None
            kept = filter_batch(
                whole,
                batch,
                lambda record, keep=keep, base=base: keep(record.offset - base),
                keep_empty=True,
                delete_horizon_ms=horizon,
            )
            assert kept is not None
            out += bytes(kept)
    marker = end_txn_marker(COMMIT, producer_id=5, producer_epoch=0, coordinator_epoch=1, timestamp=T0, base_offset=140)
    [batch] = batches(marker)
    with_horizon = filter_batch(marker, batch, lambda record: True, keep_empty=True, delete_horizon_ms=T0 + 5)
    assert with_horizon is not None
    return out + bytes(with_horizon) + bytes(empty_batch(141, 150, max_timestamp=T0))


def legacy(magic: int) -> bytes:
    """Plain messages, then a wrapper of each codec that the magic knows, the last with missing offsets."""
    messages = [(key, value) for _, key, value, _ in ODD]
    out = b"".join(plain_message(n, T0 + n, *message, magic=magic) for n, message in enumerate(messages))
    offset = len(messages)
    for codec in range(1, 3 + magic):
        inner = [(offset + n, T0 + 100 * codec - n, *message) for n, message in enumerate(messages)]
        out += compressed_wrapper(inner, magic=magic, codec=codec)
        offset += len(messages)
    sparse = [(offset + 3 * n, T0 + n, *message) for n, message in enumerate(messages)]
    out += compressed_wrapper(sparse, magic=magic, codec=1)
    return out


def legacy_append_time() -> bytes:
    out = plain_message(0, T0 + 5, b"k", b"v", magic=1, timestamp_type=LOG_APPEND_TIME)
    inner = [(1 + n, T0 + n, key, value) for n, (_, key, value, _) in enumerate(ODD)]
    stamped = {"timestamp_type": LOG_APPEND_TIME, "log_append_time_ms": T0 + 777}
    return out + compressed_wrapper(inner, magic=1, codec=3, **stamped)


LOGS: dict[str, Callable[[], bytes]] = {
    **{f"codec-{name}": (lambda codec=codec: plain_codec(codec)) for codec, name in enumerate(CODECS)},
    "producers": producers,
    "append-time": append_time,
    "filtered": filtered,
    "legacy-0": lambda: legacy(0),
    "legacy-1": lambda: legacy(1),
    "legacy-append-time": legacy_append_time,
}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory, kafka_jars: None) -> dict[str, FileDump]:
    folder = tmp_path_factory.mktemp("judged")
    files = {}
    for name, make in LOGS.items():
        files[name] = folder / name / "00000000000000000000.log"
        files[name].parent.mkdir()
        files[name].write_bytes(make())
    judged = dump_log_segments(files.values(), allow_gaps=True)
    return {name: judged[file] for name, file in files.items()}


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def check_sent(records: Sequence[dict[str, Any]], sent: Sequence[Sent], first_offset: int) -> None:
    for n, (record, (timestamp, key, value, headers)) in enumerate(zip(records, sent, strict=True)):
        assert record["offset"] == first_offset + n
        assert record["timestamp"] == timestamp
        check_content(record, key, value)
        assert record["headerKeys"] == [name for name, _ in headers]


def check_content(record: dict[str, Any], key: bytes | None, value: bytes | None) -> None:
    assert record["keySize"] == (-1 if key is None else len(key))
    assert record["valueSize"] == (-1 if value is None else len(value))
    assert record.get("key") == text(key)
    assert record.get("payload") == text(value)


@pytest.mark.spec("RF-01", "RF-04", "RF-05")
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(dumps: dict[str, FileDump], codec: str) -> None:
    first, second = dumps[f"codec-{codec}"].batches
    assert (first["compresscodec"], second["compresscodec"]) == (codec, codec)
    assert (first["baseOffset"], first["lastOffset"], first["count"]) == (0, len(ODD) - 1, len(ODD))
    assert first["maxTimestamp"] == T0 + 70_000
    check_sent(first["records"], ODD, 0)
    check_sent(second["records"], LONG, len(ODD))


@pytest.mark.spec("RF-01", "RF-03", "RF-06")
def test_producers_and_markers(dumps: dict[str, FileDump]) -> None:
    found = dumps["producers"].batches
    assert [batch["baseSequence"] for batch in found] == [2_147_483_646, 1, -1, 4, -1]
    assert [batch["lastSequence"] for batch in found] == [0, 3, -1, 6, -1]
    assert [batch["partitionLeaderEpoch"] for batch in found] == [4, 4, 5, 5, 5]
    assert [batch["isTransactional"] for batch in found] == [False, True, True, True, True]
    assert [batch["isControl"] for batch in found] == [False, False, True, False, True]
    assert {(batch["producerId"], batch["producerEpoch"]) for batch in found} == {(77, 3)}
    assert [record["sequence"] for record in found[0]["records"]] == [2_147_483_646, 2_147_483_647, 0]
    markers = [batch["records"] for batch in found if batch["isControl"]]
    assert [[marker["endTxnMarker"] for marker in records] for records in markers] == [["ABORT"], ["COMMIT"]]
    assert [records[0]["coordinatorEpoch"] for records in markers] == [9, 10]
    assert [records[0]["timestamp"] for records in markers] == [T0, T0 + 9]


@pytest.mark.spec("RF-03")
def test_append_time(dumps: dict[str, FileDump]) -> None:
    for codec, batch in enumerate(dumps["append-time"].batches):
        assert (batch["timestampType"], batch["maxTimestamp"]) == ("LogAppendTime", T0 + 999)
        assert batch["compresscodec"] == CODECS[codec]
        check_sent(batch["records"], [(T0 + 999, *rest) for _, *rest in ODD], codec * len(ODD))


@pytest.mark.spec("RF-08", "RF-13", "RF-15")
def test_filtered_batches(dumps: dict[str, FileDump]) -> None:
    *found, marker, empty = dumps["filtered"].batches
    wanted = ([3, 4, 5, 6], [0, 6], [0, 1, 2], [])
    for n, batch in enumerate(found):
        turn, codec = divmod(n, 5)
        base = n * len(ODD)
        assert (batch["baseOffset"], batch["lastOffset"]) == (base, base + len(ODD) - 1)
        assert (batch["baseSequence"], batch["lastSequence"]) == (base, base + len(ODD) - 1)
        assert batch["count"] == len(wanted[turn])
        assert batch["compresscodec"] == (CODECS[codec] if wanted[turn] else "none")
        assert batch["deleteHorizonMs"] == (T0 + 86_400_000 if turn == 1 else None)
        assert [record["offset"] - base for record in batch["records"]] == wanted[turn]
        for record in batch["records"]:
            timestamp, key, value, headers = ODD[record["offset"] - base]
            assert record["timestamp"] == timestamp
            assert record["sequence"] == record["offset"]
            assert record["headerKeys"] == [name for name, _ in headers]
            check_content(record, key, value)
    assert (marker["isControl"], marker["deleteHorizonMs"]) == (True, T0 + 5)
    assert marker["records"][0]["timestamp"] == T0
    assert (empty["baseOffset"], empty["lastOffset"], empty["count"]) == (141, 150, 0)


@pytest.mark.spec("RF-07", "RF-18")
@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_sets(dumps: dict[str, FileDump], magic: int) -> None:
    found = dumps[f"legacy-{magic}"].batches
    plain, wrappers = found[: len(ODD)], found[len(ODD) :]
    assert {batch["magic"] for batch in found} == {magic}
    for n, batch in enumerate(plain):
        [record] = batch["records"]
        assert (batch["offset"], record["offset"]) == (n, n)
        assert record["timestamp"] == (T0 + n if magic else -1)
        check_content(record, *ODD[n][1:3])
    assert [batch["compresscodec"] for batch in wrappers] == [*CODECS[1 : 3 + magic], "gzip"]
    for turn, batch in enumerate(wrappers):
        step = 3 if turn == len(wrappers) - 1 else 1
        first = (turn + 1) * len(ODD)
        assert [record["offset"] for record in batch["records"]] == [first + step * n for n in range(len(ODD))]
        assert batch["offset"] == batch["records"][-1]["offset"]
        assert batch["maxTimestamp"] == max(record["timestamp"] for record in batch["records"])
        for record, (_, key, value, _) in zip(batch["records"], ODD, strict=True):
            check_content(record, key, value)


@pytest.mark.spec("RF-07")
def test_legacy_append_time(dumps: dict[str, FileDump]) -> None:
    plain, wrapper = dumps["legacy-append-time"].batches
    assert (plain["timestampType"], plain["maxTimestamp"]) == ("LogAppendTime", T0 + 5)
    assert {record["timestamp"] for record in wrapper["records"]} == {T0 + 777}
    assert wrapper["compresscodec"] == "lz4"


def test_the_judge_bites(tmp_path: Path) -> None:
    """A flipped bit in a batch and a batch that is not whole: the tool exits 0 for both, the harness does not."""
    builder = BatchBuilder()
    builder.append(T0, b"key", b"value")
    good = bytes(builder.build())
    spoiled = bytearray(good)
    spoiled[-3] ^= 1
    for name, data in (("flipped", bytes(spoiled)), ("cut", good + good[:70])):
        file = tmp_path / name / "00000000000000000000.log"
        file.parent.mkdir()
        file.write_bytes(data)
        with pytest.raises(KafkaComplaintError):
            dump_log_segments([file])

"""Produce and Fetch."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from support.hostile.mutation import fix_crcs
from support.requests.case import COMPACTED, DATA, NO_ID, UNKNOWN_ID, UNUSUAL_NAMES, Case, ServerFacts, label, versions
from tailrace.protocol.message import Request
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.record.builder import BatchBuilder

IDS_FROM = 13


def batch(
    count: int = 1, *, key: bytes | None = b"key", value: bytes = b"value", time_ms: int = 2000, **fields: int | bool
) -> bytes:
    builder = BatchBuilder(**fields)  # type: ignore[arg-type]
    for n in range(count):
        builder.append(time_ms + n, key, value)
    return bytes(builder.build())


def partly_keyless(codec: int = 0) -> bytes:
    """Ten records; 1, 4 and 7 have no key, and 4 and 5 a timestamp of the far future."""
    builder = BatchBuilder(codec=codec)
    for n in range(10):
        builder.append(1 << 60 if n in (4, 5) else 2000, None if n in (1, 4, 7) else b"key", b"value")
    return bytes(builder.build())


def changed(data: bytes, position: int, new: bytes) -> bytes:
    return data[:position] + new + data[position + len(new) :]


def with_crc(data: bytes) -> bytes:
    """The batch with the length and the checksum of what it is."""
    made = bytearray(data)
    made[8:12] = struct.pack(">i", len(made) - 12)
    fix_crcs(made)
    return bytes(made)


def flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 0xFF
    return bytes(changed)


def api_versions(facts: ServerFacts) -> Iterator[Case]:
    for version in versions(ApiVersionsRequest):
        named = ApiVersionsRequest(client_software_name="tests", client_software_version="1.0")
        yield Case("named", named, version)
        if version >= 3:
            yield Case("nameless", ApiVersionsRequest(), version)
            strange = ApiVersionsRequest(client_software_name="a b/c", client_software_version="-")
            yield Case("strange", strange, version)


def timed(request: ProduceRequest, timeout_ms: int) -> ProduceRequest:
    request.timeout_ms = timeout_ms
    return request


def produce(facts: ServerFacts) -> Iterator[Case]:
    good = batch(2)
    sequenced = batch(producer_id=74, producer_epoch=0, base_sequence=0)
    sets: dict[str, bytes | None] = {
        "good": good,
        "empty": b"",
        "damaged": flipped(good, -1),
        "cut": good[:-1],
        "cut in the header": good[:40],
        "two batches": good + good,
        "of magic 7": flipped(good, 16),
        "longer than it says": good + b"\0",
        "with a wrong count": good[:57] + struct.pack(">i", 3) + good[61:],
        "gzip": batch(3, codec=1),
        "zstd": batch(3, codec=4),
        "idempotent": batch(producer_id=70, producer_epoch=0, base_sequence=0),
        "idempotent again": batch(producer_id=70, producer_epoch=0, base_sequence=0),
        "idempotent with a gap": batch(producer_id=70, producer_epoch=0, base_sequence=9),
        "idempotent of a later epoch": batch(producer_id=70, producer_epoch=1, base_sequence=0),
        "idempotent of an old epoch": batch(producer_id=70, producer_epoch=0, base_sequence=1),
        "idempotent from the middle": batch(producer_id=71, producer_epoch=0, base_sequence=5),
        "of a transaction that nobody began": batch(
            producer_id=72, producer_epoch=0, base_sequence=0, transactional=True
        ),
        "a marker": batch(producer_id=73, producer_epoch=0, transactional=True, control=True),
        "of magic 1": changed(good, 16, b"\1"),
        "of a length below any batch": changed(good, 8, b"\0\0\0\5"),
        "two batches, the second damaged": good + flipped(good, -1),
        "with half a batch behind": good + good[:-3],
        "without records": with_crc(changed(good[:61], 57, bytes(4))),
        "of a negative count": with_crc(changed(good, 57, b"\xff" * 4)),
        "of a wrong last offset": with_crc(changed(good, 23, b"\0\0\0\7")),
        "that begins at offset 5": changed(good, 0, struct.pack(">q", 5)),
        "with a delete horizon": with_crc(changed(good, 22, b"\x40")),
        "with unknown attributes": with_crc(changed(good, 21, b"\x40")),
        "of the far future": batch(time_ms=1 << 60),
        "without timestamps": batch(time_ms=-1),
        "of negative times": with_crc(changed(good, 27, struct.pack(">q", -5000))),
        "of a wrong greatest time": with_crc(changed(good, 35, struct.pack(">q", 1 << 59))),
        "too large": batch(value=bytes(1_100_000)),
        "of a producer without a sequence": with_crc(changed(sequenced, 53, b"\xff" * 4)),
        "of a negative producer": with_crc(changed(sequenced, 43, b"\xff" * 7 + b"\xfb")),
    }
    contested: dict[str, bytes] = {
        "with an unknown codec": with_crc(changed(good, 22, b"\6")),
        "gzip of garbage": with_crc(changed(good, 22, b"\1")),
        "snappy of garbage": with_crc(changed(good, 22, b"\2")),
        "lz4 of garbage": with_crc(changed(good, 22, b"\3")),
        "zstd of garbage": with_crc(changed(good, 22, b"\4")),
        "stamped by a broker": with_crc(changed(good, 22, b"\x08")),
        "of a producer without an epoch": with_crc(changed(sequenced, 51, b"\xff\xff")),
    }
    for version in versions(ProduceRequest):

        def to(
            name: str,
            records: bytes | None,
            index: int = 0,
            acks: int = -1,
            topic_id: bytes | None = None,
            *,
            at: int = version,
        ) -> ProduceRequest:
            wanted = TopicProduceData(partition_data=[PartitionProduceData(index=index, records=records)])
            if at >= IDS_FROM:
                wanted.topic_id = facts.topic_ids.get(name, UNKNOWN_ID) if topic_id is None else topic_id
            else:
                wanted.name = name
            return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[wanted])

        for what, records in sets.items():
            yield Case(what, to(DATA, records, index=2), version)
        for what, records in contested.items():  # what is not judged alike must not move the offsets of the others
            yield Case(what, to(COMPACTED, records), version)
        for acks in (1, 2, -2):
            yield Case(f"acks {acks}", to(DATA, good, acks=acks), version)
        for index in (9, -1):
            yield Case(f"partition {index}", to(DATA, good, index=index), version)
        yield Case("without a key, compacted", to(COMPACTED, batch(key=None)), version)
        yield Case("all without a key, compacted", to(COMPACTED, batch(4, key=None)), version)
        yield Case("partly without a key, compacted", to(COMPACTED, partly_keyless()), version)
        yield Case("gzip, partly without a key, compacted", to(COMPACTED, partly_keyless(codec=1)), version)
        yield Case("partly without a key", to(DATA, partly_keyless(), index=2), version)
        if version < IDS_FROM:
            for name in UNUSUAL_NAMES:
                yield Case(f"to {label(name)}", to(name, good), version)
        else:
            yield Case("to an unknown id", to("", good), version)
            yield Case("to no id", to("", good, topic_id=NO_ID), version)
        transactional = to(DATA, good)
        transactional.transactional_id = "t"
        yield Case("no batch of its transaction", transactional, version)
        yield Case("to nobody", ProduceRequest(acks=-1, timeout_ms=5000), version)
        mixed = to(DATA, good, index=1)
        mixed.topic_data += to("nope", good).topic_data
        mixed.topic_data[0].partition_data.append(PartitionProduceData(index=9, records=good))
        yield Case("to several", mixed, version)
        yield Case("no time", timed(to(DATA, good), 0), version)
        yield Case("negative time", timed(to(DATA, good), -1), version)


def fetch(facts: ServerFacts) -> Iterator[Case]:
    for version in versions(FetchRequest):

        def of(
            name: str,
            offset: int = 5,
            index: int = 0,
            *,
            epoch: int = -1,
            topic_id: bytes | None = None,
            at: int = version,
        ) -> FetchTopic:
            wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            if at >= 9:
                wanted.current_leader_epoch = epoch
            if at >= IDS_FROM:
                chosen = facts.topic_ids.get(name, UNKNOWN_ID) if topic_id is None else topic_id
                return FetchTopic(topic_id=chosen, partitions=[wanted])
            return FetchTopic(topic=name, partitions=[wanted])

        def ask(*topics: FetchTopic, **fields: int) -> Request:
            fields = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20} | fields
            return FetchRequest(topics=list(topics), **fields)

        for offset in (0, 5, 10**9, -1):
            yield Case(f"at {offset}", ask(of(DATA, offset)), version)
        for index in (1, 9, -1):
            yield Case(f"partition {index}", ask(of(DATA, 0, index)), version)
        if version < IDS_FROM:
            for name in UNUSUAL_NAMES:
                yield Case(f"of {label(name)}", ask(of(name)), version)
        else:
            yield Case("of an unknown id", ask(of("")), version)
            yield Case("of no id", ask(of("", topic_id=NO_ID)), version)
        for isolation in (1, 2, -1):
            yield Case(f"isolation {isolation}", ask(of(DATA), isolation_level=isolation), version)
        if version >= 9:
            for epoch in (-5, 0, 1):
                yield Case(f"epoch {epoch}", ask(of(DATA, epoch=epoch)), version)
        if version >= 12:
            for epoch in (0, 1, 9):
                diverging = of(DATA)
                diverging.partitions[0].last_fetched_epoch = epoch
                yield Case(f"last fetched in {epoch}", ask(diverging), version)
        if version <= 14:
            yield Case("replica 7", ask(of(DATA), replica_id=7), version)
        else:
            follower = FetchRequest(topics=[of(DATA)], replica_state=ReplicaState(replica_id=7, replica_epoch=1))
            yield Case("replica 7", follower, version)
        if version >= 7:
            yield Case("unknown session", ask(session_id=12345, session_epoch=3), version)
            yield Case("session closed", ask(session_id=12345, session_epoch=-1), version)
            yield Case("negative epoch", ask(session_id=0, session_epoch=-7), version)
            forgetting = ask(session_id=12345, session_epoch=0)
            forgetting.forgotten_topics_data = [ForgottenTopic(partitions=[0])]  # type: ignore[attr-defined]
            yield Case("forgetting first", forgetting, version)
        yield Case("of nothing", ask(), version)
        yield Case("no bytes", ask(of(DATA), max_bytes=0), version)
        small = of(DATA, 0)
        small.partitions[0].partition_max_bytes = 1
        yield Case("one byte of a partition", ask(small), version)
        yield Case("twice", ask(of(DATA, 0), of(DATA, 5)), version)
        yield Case("two topics", ask(of(DATA, 0), of(COMPACTED, 0), of(DATA, 0, 1)), version)
        yield Case("negative wait", ask(of(DATA), max_wait_ms=-1, min_bytes=1 << 20), version)
        yield Case("negative bytes", ask(of(DATA), max_bytes=-1, min_bytes=-1, max_wait_ms=-1), version)

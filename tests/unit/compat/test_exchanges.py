"""Fingerprints of requests: values that a server chose do not change them, all others do."""

from __future__ import annotations

import pytest

from support.conversations.conversation import produce_request
from support.kafka.exchanges import MAX_LIST_ITEMS, MAX_TEXT_CHARACTERS, brief, fingerprint, fingerprint_of_frame
from support.requests.records import batch
from tailrace.protocol.frame import encode_request
from tailrace.protocol.message import Request
from tailrace.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tailrace.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest

UUIDS = "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "6fa459ea-ee8a-3ca4-894e-db77e160355e"
TOPIC_IDS = "AAAAAAAAAAAAAAAAAAAAAQ", "BBBBBBBBBBBBBBBBBBBBBQ"


def owning(topic_id: bytes, *partitions: int) -> Request:
    owned = [RequestTopicPartitions(topic_id=topic_id, partitions=list(partitions))]
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1, topic_partitions=owned)


def written(*, producer_id: int, time_ms: int, sequence: int = 0, value: bytes = b"v") -> Request:
    sequenced = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
    return produce_request(batch(value=value, time_ms=time_ms, **sequenced))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (HeartbeatRequest(member_id=f"raw-{UUIDS[0]}"), HeartbeatRequest(member_id=f"sim-{UUIDS[1]}")),
        (HeartbeatRequest(member_id=TOPIC_IDS[0]), HeartbeatRequest(member_id=TOPIC_IDS[1])),
        (AddPartitionsToTxnRequest(v3_and_below_producer_id=0), AddPartitionsToTxnRequest(v3_and_below_producer_id=7)),
        (ListTransactionsRequest(producer_id_filters=[1, 5]), ListTransactionsRequest(producer_id_filters=[0, 9])),
        (FindCoordinatorRequest(key=f"g:{TOPIC_IDS[0]}:0"), FindCoordinatorRequest(key=f"g:{TOPIC_IDS[1]}:0")),
        (owning(b"1" * 16, 0, 2), owning(b"2" * 16, 1, 2)),
        (written(producer_id=4, time_ms=5), written(producer_id=4000, time_ms=9)),
        (
            AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/one")]),
            AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/two")]),
        ),
    ],
    ids=["member id", "bare id", "producer id", "filter", "topic id in text", "owned", "batch", "directory"],
)
def test_values_of_the_server_do_not_change_the_fingerprint(one: Request, other: Request) -> None:
    assert fingerprint((one, 0)) == fingerprint((other, 0))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (HeartbeatRequest(member_id="a"), HeartbeatRequest(member_id="b")),
        (HeartbeatRequest(member_id=""), HeartbeatRequest(member_id=f"raw-{UUIDS[0]}")),
        (AddPartitionsToTxnRequest(v3_and_below_producer_id=-1), AddPartitionsToTxnRequest(v3_and_below_producer_id=7)),
        (owning(b"1" * 16, 0, 2), owning(b"1" * 16, 0)),
        (owning(b"1" * 16, 0), owning(bytes(16), 0)),
        (written(producer_id=4, time_ms=5), written(producer_id=4, time_ms=5, sequence=1)),
        (written(producer_id=4, time_ms=5), written(producer_id=4, time_ms=5, value=b"w")),
        (produce_request(batch(time_ms=5)), produce_request(batch(time_ms=6))),
        (produce_request(b"x" * 1000), produce_request(b"x" * 999 + b"y")),
        (
            AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/one")]),
            AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/nowhere")]),
        ),
    ],
    ids=["name", "no member id", "no producer", "fewer", "no topic", "sequence", "value", "time", "long", "nowhere"],
)
def test_values_of_the_test_change_the_fingerprint(one: Request, other: Request) -> None:
    assert fingerprint((one, 0)) != fingerprint((other, 0))


def test_the_version_changes_the_fingerprint() -> None:
    assert fingerprint((HeartbeatRequest(), 0)) != fingerprint((HeartbeatRequest(), 1))


def test_all_bytes_of_a_frame_but_the_correlation_id_change_its_fingerprint() -> None:
    def frame(correlation_id: int, client: str = "raw") -> bytes:
        return b"".join(bytes(part) for part in encode_request(HeartbeatRequest(), 0, correlation_id, client))

    assert fingerprint_of_frame(frame(1)) == fingerprint_of_frame(frame(2))
    assert fingerprint_of_frame(frame(1)) != fingerprint_of_frame(frame(1, "raW"))
    assert fingerprint_of_frame(frame(1)) != fingerprint_of_frame(frame(1)[:-1])


def test_brief_shortens_long_texts_and_lists_to_digests() -> None:
    text, items = "x" * (MAX_TEXT_CHARACTERS + 1), [0] * (MAX_LIST_ITEMS + 1)
    assert brief({"a": text[1:], "b": items[1:]}) == {"a": text[1:], "b": items[1:]}
    assert len(str(brief({"a": text, "b": items}))) < 200
    assert brief(text) != brief(f"{text[1:]}y")
    assert brief(items) != brief([*items[1:], 1])

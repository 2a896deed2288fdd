"""The hash that Kafka 4.3.1 keeps of a group's topics; the numbers here are hash4j's, as its broker uses it."""

from __future__ import annotations

import pytest

from tailrace.coordinator.metadata_hash import MetadataHashes, topic_hash
from tailrace.coordinator.xxh3 import xxh3_64
from tailrace.metadata.broker_registration import BrokerRegistration
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.metadata.topic_image import TopicImage
from tailrace.model.ids import TopicId

HASHES = {
    0: 0x2D06800538D394C2,
    1: 0x4C5CCA45D0F4811F,
    3: 0x15F7093B173D005C,
    4: 0xDCA012F95811B6B9,
    8: 0xDEC6A9A43575982E,
    9: 0xCBE393399F17FFBD,
    16: 0x7E484C18D74895D0,
    17: 0x208BDE5EE2BED407,
    32: 0x03DF0AC5255D1446,
    33: 0x199A362122D71F46,
    64: 0xDD30702AB46B3745,
    65: 0xFAB36B851B94CE20,
    96: 0xD245CD2541582982,
    97: 0x60E3E1D0D43785B3,
    128: 0xF92B70EAA21A6288,
    129: 0xF8F76713F2BB60FA,
    144: 0xD87F00765EE3D89E,
    200: 0x12FDB864685F344D,
    240: 0xCCC7375172C41F03,
    241: 0x0B3B630948CE4A00,
    256: 0xEC85B75BAFE6CA74,
    1024: 0x23BC880EBF0D29C6,
    1025: 0xC09FDFBC398C7D82,
    2049: 0x5045460F5D85C275,
    5000: 0x559FFF92C2B7F8EE,
}
"""By length, of bytes 7, 38, 69 …"""


@pytest.mark.parametrize("length", HASHES)
def test_xxh3(length: int) -> None:
    assert xxh3_64(bytes((31 * at + 7) & 0xFF for at in range(length))) == HASHES[length]


def image() -> MetadataImage:
    found = MetadataImage()
    for broker in range(3):
        found.brokers[broker] = BrokerRegistration(broker, 1, bytes(16), rack=f"rack{broker}")
    topic = TopicImage("orders-ü", TopicId(bytes.fromhex("01020304050607081112131415161718")))
    for index in range(3):
        topic.partitions[index] = PartitionRegistration((index,), (index,), index)
    found.topics[topic.name] = found.topics_by_id[topic.id] = topic
    return found


def test_a_topic() -> None:
    found = image()
    assert topic_hash(found.topics["orders-ü"], found) == -3_413_894_515_709_461_476


def test_a_group_hashes_the_topics_that_exist() -> None:
    found = image()
    hashes = MetadataHashes(lambda: found)
    assert hashes.of([]) == hashes.of(["missing"]) == 0
    alone = hashes.of(["orders-ü"])
    assert alone == hashes.of(["missing", "orders-ü"]) != 0


@pytest.mark.parametrize("change", ["partitions", "racks", "id"])
def test_every_change_that_matters_changes_it(change: str) -> None:
    found = image()
    hashes = MetadataHashes(lambda: found)
    before = hashes.of(["orders-ü"])
    topic = found.topics["orders-ü"]
    if change == "partitions":
        topic.partitions[3] = PartitionRegistration((0,), (0,), 0)
    elif change == "racks":
        topic.partitions[0] = PartitionRegistration((2,), (2,), 2)
    else:
        topic.id = TopicId(bytes(16))
    assert hashes.of(["orders-ü"]) == before  # until it is told
    hashes.forget("orders-ü")
    assert hashes.of(["orders-ü"]) != before


def test_the_order_of_replicas_does_not_matter() -> None:
    found = image()
    topic = found.topics["orders-ü"]
    hashes = []
    for replicas in ((0, 1, 2), (2, 0, 1)):
        topic.partitions[0] = PartitionRegistration(replicas, replicas, replicas[0])
        hashes.append(topic_hash(topic, found))
    assert hashes[0] == hashes[1]

"""A hash of the topics that a group is subscribed to: id, name, partitions and the racks of their replicas.

A group keeps it in its record; when it differs from that of the metadata as they are now, the group needs a new
assignment. It is the hash of Kafka 4.3.1, bit for bit: numbers are little endian, text is UTF-16 with its length
after it.

    topic   byte 0 · id · name · partition count · of each partition: index, then length and text of each rack, sorted
    group   the hashes of its topics that exist, in order of their names; 0 when there are none
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Final

from tailrace.coordinator.xxh3 import xxh3_64
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.topic_image import TopicImage

_MAGIC: Final = b"\x00"
_INT32: Final = struct.Struct("<i")
_INT64: Final = struct.Struct("<q")


class MetadataHashes:
    """Of all topics that somebody asked about, until they change."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._topics: dict[str, int] = {}

    def of(self, topics: Iterable[str]) -> int:
        """Of a group that is subscribed to these topics."""
        image = self._image()
        hashes: list[bytes] = []
        for name in sorted(topics):
            topic = image.topics.get(name)
            if topic is None:
                continue
            found = self._topics.get(name)
            if found is None:
                found = self._topics[name] = topic_hash(topic, image)
            hashes.append(_INT64.pack(found))
        return _signed(xxh3_64(b"".join(hashes))) if hashes else 0

    def forget(self, topic: str) -> None:
        """It has changed, or nobody is subscribed to it any more."""
        self._topics.pop(topic, None)


def topic_hash(topic: TopicImage, image: MetadataImage) -> int:
    # Java has the halves of an id as two big-endian numbers.
    parts = [_MAGIC, topic.id[7::-1], topic.id[:7:-1], _text(topic.name), _INT32.pack(len(topic.partitions))]
    for index in range(len(topic.partitions)):
        parts.append(_INT32.pack(index))
        partition = topic.partitions.get(index)
        replicas = () if partition is None else partition.replicas
        brokers = (image.brokers.get(replica) for replica in replicas)
        racks = [broker.rack for broker in brokers if broker is not None and broker.rack is not None]
        for rack in sorted(racks, key=_units):
            parts += (_INT32.pack(len(_units(rack)) // 2), _text(rack))
    return _signed(xxh3_64(b"".join(parts)))


def _units(text: str) -> bytes:
    """In the order in which Java compares text."""
    return text.encode("utf-16-be", "surrogatepass")


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT32.pack(len(units) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value

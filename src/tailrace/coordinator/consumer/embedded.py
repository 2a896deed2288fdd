"""What members of the classic protocol tell each other through the coordinator, which reads along here.

    int16 version, then a ConsumerProtocolSubscription or a ConsumerProtocolAssignment of that version

Later versions only add to the end: whoever knows version 3 can read them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, TypeVar

from tailrace.coordinator.consumer.partitions import Partitions, partitions_of
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import CorruptMessageError
from tailrace.protocol.codec import decode_from, encode
from tailrace.protocol.message import Record
from tailrace.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

_VERSION: Final = struct.Struct(">h")

R = TypeVar("R", bound=Record)


def subscription_of(data: bytes) -> ConsumerProtocolSubscription:
    """Raises CorruptMessageError, or another InvalidDataError."""
    return _read(ConsumerProtocolSubscription, data)


def assignment_of(data: bytes) -> ConsumerProtocolAssignment:
    """Raises CorruptMessageError, or another InvalidDataError."""
    return _read(ConsumerProtocolAssignment, data)


def version_of(data: bytes, kind: type[Record] = ConsumerProtocolAssignment) -> int:
    """The version that was written, or the last one that is known here."""
    first, last = kind.VERSIONS
    if len(data) < _VERSION.size:
        raise CorruptMessageError("what a member tells the others has no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < first:
        raise CorruptMessageError(f"what a member tells the others has version {version}")
    return min(version, last)


def assignment_bytes(partitions: Partitions, image: MetadataImage, version: int) -> bytes:
    """Topics that are gone are left out."""
    found = ((image.topic_by_id(topic_id), indexes) for topic_id, indexes in partitions.items())
    named = sorted((topic.name, sorted(indexes)) for topic, indexes in found if topic is not None)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=indexes) for name, indexes in named
        ]
    )
    return _VERSION.pack(version) + encode(assignment, version)


def partitions_by_id(named: Iterable[tuple[str, Iterable[int]]], image: MetadataImage) -> Partitions:
    """Topics that are gone are left out."""
    return partitions_of((image.topics[name].id, indexes) for name, indexes in named if name in image.topics)


def _read(kind: type[R], data: bytes) -> R:
    found, _ = decode_from(kind, version_of(data, kind), memoryview(data), _VERSION.size)
    return found

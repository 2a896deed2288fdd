"""Metadata records as the value of a record of `__cluster_metadata`.

    uvarint frame version, always 1
    uvarint record type
    uvarint version
    message

The values of control records have no frame: their first field is an int16 with their version.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeVar

from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError, UnsupportedVersionError
from tailrace.protocol.codec import check_version, decode, encode
from tailrace.protocol.message import Record
from tailrace.protocol.records import brokers, ledger, security, settings, topics
from tailrace.protocol.wire import UVARINTS, MalformedField, read_uvarint

FRAME_VERSION: Final = 1

METADATA_RECORDS: Final[dict[int, type[Record]]] = {
    kind.KEY: kind
    for module in (brokers, ledger, security, settings, topics)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Record) and kind is not Record
}

_VERSION: Final = struct.Struct(">h")
R = TypeVar("R", bound=Record)


class VersionedRecord(NamedTuple):
    record: Record
    version: int


def encode_metadata_record(record: Record, version: int) -> bytes:
    check_version(type(record), version)
    return UVARINTS[FRAME_VERSION] + UVARINTS[record.KEY] + UVARINTS[version] + encode(record, version)


def decode_metadata_record(buffer: Buffer) -> VersionedRecord:
    """Raises CorruptMessageError, or UnsupportedVersionError for a type or version that this release does not know."""
    try:
        frame_version, position = read_uvarint(buffer, 0)
        record_type, position = read_uvarint(buffer, position)
        version, position = read_uvarint(buffer, position)
    except (IndexError, MalformedField):
        raise CorruptMessageError(f"a metadata record of {len(buffer)} bytes has no whole frame") from None
    if frame_version != FRAME_VERSION:
        raise UnsupportedVersionError(f"a metadata record has frame version {frame_version}, not {FRAME_VERSION}")
    kind = METADATA_RECORDS.get(record_type)
    if kind is None:
        raise UnsupportedVersionError(f"there is no metadata record of type {record_type}")
    return VersionedRecord(decode(kind, version, memoryview(buffer)[position:]), version)


def decode_control_value(kind: type[R], buffer: Buffer) -> R:
    """The value of a control record, in the version that it names itself."""
    if len(buffer) < _VERSION.size:
        raise CorruptMessageError(f"{kind.__name__} of {len(buffer)} bytes has no version")
    return decode(kind, _VERSION.unpack_from(buffer)[0], buffer)

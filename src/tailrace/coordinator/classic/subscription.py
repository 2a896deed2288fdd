"""The topics that members of a group of consumers say they read, out of what they tell each other.

Only the part that all versions of the consumers' embedded protocol begin with is looked at: int16 version, then the
topics and user data of version 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from tailrace.model.errors import InvalidDataError
from tailrace.protocol.codec import decode_from
from tailrace.protocol.records.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_VERSION: Final = struct.Struct(">h")
_COMMON_VERSION: Final = 0


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Of all members together; None when one of them cannot be read."""
    topics: set[str] = set()
    for data in subscriptions:
        if len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] < _COMMON_VERSION:
            return None
        try:
            found, _ = decode_from(ConsumerProtocolSubscription, _COMMON_VERSION, memoryview(data), _VERSION.size)
        except InvalidDataError:
            return None
        topics.update(found.topics)
    return frozenset(topics)

"""What a command comes to: records to write and the answer to give once they are committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tailrace.protocol.message import Response
from tailrace.protocol.record_frame import VersionedRecord


class Decision(NamedTuple):
    response: Response
    records: Sequence[VersionedRecord] = ()
    when_written: Callable[[int], None] | None = None
    """Called with the offset of the last record as soon as it has one, before it is committed."""

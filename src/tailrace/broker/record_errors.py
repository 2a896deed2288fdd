"""The record errors of a Produce response: each record for which a batch was refused, in Kafka's words.

Kafka checks all records of a batch before it refuses it, and lists each one that breaks a rule about single records.
If one of them is malformed, Kafka refuses the batch for that record alone, without a list. The error code for a list is
INVALID_TIMESTAMP when the timestamp of one of its records is at fault, else INVALID_RECORD.

Kafka lists all of them. Here the number is limited, because a small compressed batch can hold millions of records.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from tailrace.env.files import Buffer
from tailrace.model.errors import InvalidDataError, InvalidRecordError, InvalidTimestampError, TailraceError
from tailrace.model.record_rules import NO_KEY, OUT_OF_RANGE, RejectedRecords
from tailrace.protocol.messages.produce import BatchIndexAndErrorMessage

MAX_PER_BATCH: Final = 10_000
MAX_UNANSWERED: Final = 100_000
"""Of the requests of a connection that are handled at once or not answered yet. Past it, only the first bad record of a
batch is listed."""
_IN_MESSAGE: Final = 3


def with_record_errors(error: TailraceError, batch: Buffer, partition: str, limit: int) -> TailraceError:
    """The error for a refused batch, with at most `limit` of its bad records in `rejected`, but one at least.

    Returns `error` itself when it is not about single records, and the error for a record that is malformed.
    """
    if not isinstance(error, InvalidDataError) or error.record_rules is None:
        return error
    from tailrace.record.rejected import rejected_records

    try:
        rejected = rejected_records(batch, error.record_rules, max(min(limit, MAX_PER_BATCH), 1))
    except TailraceError as malformed:
        return malformed.with_traceback(None)
    if rejected.count_of(NO_KEY) < len(rejected):
        return InvalidTimestampError(
            "One or more records have been rejected due to invalid timestamp",
            record_index=error.record_index,
            rejected=rejected,
        )
    shown = ", ".join(
        f"RecordError(batchIndex={each.batch_index}, message='{each.batch_index_error_message}')"
        for each in islice(record_errors(rejected, partition), _IN_MESSAGE)
    )
    return InvalidRecordError(
        f"One or more records have been rejected due to {len(rejected)} record errors in total, and only showing the "
        f"first three errors at most: [{shown}]",
        record_index=error.record_index,
        rejected=rejected,
    )


def record_errors(rejected: RejectedRecords, partition: str) -> Iterator[BatchIndexAndErrorMessage]:
    rules = rejected.rules
    no_key = f"Compacted topic cannot accept message without key in topic partition {partition}"
    kind = "PartialDefaultRecord" if rejected.is_compressed else "DefaultRecord"
    for index, fault, timestamp, key_length, value_length in rejected:
        if fault == NO_KEY:
            message = no_key
        elif fault == OUT_OF_RANGE:
            message = (
                f"Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within "
                f"[{rules.earliest_ms}, {rules.latest_ms}]"
            )
        else:
            message = (
                f"Invalid timestamp type in message {kind}(offset={index}, timestamp={timestamp}, "
                f"key={max(key_length, 0)} bytes, value={max(value_length, 0)} bytes). Producer should not set "
                "timestamp type to LogAppendTime."
            )
        yield BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)

"""What a coordinator's client is told when the coordinator's own log refuses."""

from __future__ import annotations

from typing import Final

from tailrace.model.errors import (
    CoordinatorNotAvailableError,
    LogDirUnavailableError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    RequestTimedOutError,
    StorageError,
    TailraceError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)

_TRY_AGAIN_HERE: Final = (
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
_NO_WORDS: Final = (MessageTooLargeError, RecordListTooLargeError)
"""Of one batch for all that a request asks. Clients of a coordinator know no limit of its log."""
_LOOK_ELSEWHERE: Final = (LogDirUnavailableError, NotLeaderOrFollowerError, StorageError)


def as_coordinator_error(error: TailraceError) -> TailraceError:
    """Clients know these two as a reason to wait, or to ask for the coordinator anew."""
    if isinstance(error, _TRY_AGAIN_HERE):
        return CoordinatorNotAvailableError(str(error))
    if isinstance(error, _LOOK_ELSEWHERE):
        return NotCoordinatorError(str(error))
    if isinstance(error, _NO_WORDS):
        return UnknownServerError(str(error))
    return error

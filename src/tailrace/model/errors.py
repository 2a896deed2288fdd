"""Every error that leaves a module of Tailrace on purpose.

    TailraceError                     code −1; says what happened and what to do next
    ├── InvalidDataError              bytes from outside are not what they claim to be
    │   ├── CorruptMessageError       2   CRC, length, magic: the bytes are damaged
    │   ├── InvalidRecordError        87  well-formed, but breaks a rule (offsets, counts, keys)
    │   ├── InvalidTimestampError     32
    │   ├── UnsupportedCompressionError 76
    │   ├── UnsupportedForMessageFormatError 43
    │   ├── InvalidRequestError       42  a request cannot be decoded: close the connection
    │   ├── CorruptIndexError         an index file contradicts itself or its log: rebuild it
    │   ├── CorruptSnapshotError      a producer snapshot fails its CRC: discard it
    │   └── CorruptCheckpointError    a text checkpoint cannot be parsed
    ├── UnsupportedVersionError       35  an API, a version of it, or a field in that version does not exist
    ├── UnencodableMessageError       a message holds a value that its schema has no place for
    ├── MessageTooLargeError          10
    ├── RecordListTooLargeError       18
    ├── OffsetOutOfRangeError         1
    ├── ProducerError
    │   ├── OutOfOrderSequenceError   45
    │   ├── DuplicateSequenceError    46
    │   ├── InvalidProducerEpochError 47
    │   ├── InvalidTxnStateError      48
    │   ├── TransactionCoordinatorFencedError 52
    │   └── UnknownProducerIdError    59
    ├── InconsistentTopicIdError      103
    ├── UnexpectedAppendOffsetError   a follower was given batches below its log end
    ├── SegmentOffsetOverflowError    an offset does not fit an int32 relative to its segment's base
    ├── IndexAppendError              an index was asked to go backwards or beyond its end
    ├── LogDirError                   a data directory cannot be used
    │   ├── LogDirNotFoundError       57  no such directory in log.dirs
    │   ├── LogDirUnavailableError    56  the partition may be in an offline directory, or none takes new ones
    │   ├── InvalidReplicaAssignmentError 39  the directory named for a partition takes none
    │   ├── MoveCancelledError        a move between directories was given up before it ended
    │   ├── LogDirLockedError         another process uses the directory: do not start
    │   ├── DuplicateLogDirError      two entries of log.dirs are the same directory: do not start
    │   ├── ForeignLogDirError        the directory belongs to another cluster or node: do not start
    │   ├── DuplicateLogError         two directories hold the same partition: do not start
    │   └── NoLiveLogDirError         the last directory has failed: the broker must stop
    ├── SegmentGoneError              a reader lost the race against truncation or close: look up again
    └── StorageError                  56  the disk refused; carries the OSError

`code` is Kafka's error code, `retriable` Kafka's retriable bit, `hint` the next step for a person.
"""

from __future__ import annotations

import errno
from typing import ClassVar, Final

_HINTS: Final = {
    errno.ENOSPC: "free space on the disk",
    errno.EDQUOT: "free space, or ask for a larger quota",
    errno.EACCES: "check the permissions of the file and of the directories above it, and as which user you run",
    errno.EPERM: "check the permissions of the file and of the directories above it, and as which user you run",
    errno.EROFS: "mount the disk for writing, or name another directory",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENFILE: "allow more open files (sysctl fs.file-max)",
}


class TailraceError(Exception):
    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    hint: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """`CorruptMessageError` → `CORRUPT_MESSAGE`, as Kafka spells it."""
        stem = type(self).__name__.removesuffix("Error")
        return "".join(("_" + c if c.isupper() and i else c).upper() for i, c in enumerate(stem))


class InvalidDataError(TailraceError):
    """`record_index` is the place in its batch of the record at fault, where it is one record's."""

    def __init__(self, message: str = "", *, record_index: int | None = None) -> None:
        super().__init__(message)
        self.record_index = record_index


class CorruptMessageError(InvalidDataError):
    code = 2
    retriable = True
    hint = "send the batch again; if it fails again, the sender or the disk damages bytes"


class InvalidRecordError(InvalidDataError):
    code = 87
    hint = "the producer built a batch that breaks the record format's rules; update the client"


class InvalidTimestampError(InvalidDataError):
    code = 32
    hint = "check the producer's clock, or message.timestamp.before.max.ms and message.timestamp.after.max.ms"


class UnsupportedCompressionError(InvalidDataError):
    code = 76
    hint = "use none, gzip, snappy, lz4 or zstd (zstd only with record format v2)"


class UnsupportedForMessageFormatError(InvalidDataError):
    code = 43
    hint = "idempotent and transactional producers need record format v2"


class InvalidRequestError(InvalidDataError):
    code = 42
    hint = "the client sent bytes that are no request of this version; update the client"


class CorruptIndexError(InvalidDataError):
    hint = "indexes are disposable: they are rebuilt from the log when the log is opened"


class CorruptSnapshotError(InvalidDataError):
    hint = "the snapshot is discarded and producer state is rebuilt from the log"


class CorruptCheckpointError(InvalidDataError):
    hint = "move the file away: without it the log is opened from what its other files say"


class UnsupportedVersionError(TailraceError):
    code = 35
    hint = "ask with ApiVersions which versions the other side speaks"


class UnencodableMessageError(TailraceError):
    pass


class MessageTooLargeError(TailraceError):
    code = 10
    hint = "send smaller batches or raise max.message.bytes"


class RecordListTooLargeError(TailraceError):
    code = 18
    hint = "send smaller batches or raise segment.bytes"


class OffsetOutOfRangeError(TailraceError):
    code = 1
    hint = "ask for the earliest or latest offset and go on from there"


class ProducerError(TailraceError):
    pass


class OutOfOrderSequenceError(ProducerError):
    code = 45
    hint = "a batch before this one was lost; the producer must start again with a new epoch"


class DuplicateSequenceError(ProducerError):
    code = 46
    hint = "the batch was written before; treat it as sent"


class InvalidProducerEpochError(ProducerError):
    code = 47
    hint = "another producer with the same transactional id took over; close this one"


class InvalidTxnStateError(ProducerError):
    code = 48
    hint = "abort the transaction and begin a new one"


class TransactionCoordinatorFencedError(ProducerError):
    code = 52
    hint = "a newer transaction coordinator has taken over"


class UnknownProducerIdError(ProducerError):
    code = 59
    hint = "the producer's state has expired; ask for a new producer id"


class InconsistentTopicIdError(TailraceError):
    code = 103
    retriable = True
    hint = "the directory belongs to an older topic of the same name; move it away"


class UnexpectedAppendOffsetError(TailraceError):
    hint = "truncate to the leader's log, or restart at its log start"

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class SegmentOffsetOverflowError(TailraceError):
    hint = "the segment is split when its log is opened"


class IndexAppendError(TailraceError):
    pass


class LogDirError(TailraceError):
    pass


class LogDirNotFoundError(LogDirError):
    code = 57
    hint = "name a directory of log.dirs"


class LogDirUnavailableError(LogDirError):
    code = 56
    retriable = True
    hint = "check the disks of the offline directories and restart, or uncordon a directory"


class InvalidReplicaAssignmentError(LogDirError):
    code = 39
    hint = "name another directory, or uncordon this one"


class MoveCancelledError(LogDirError):
    hint = "the partition stays where it was; it can be moved again"


class LogDirLockedError(LogDirError):
    hint = "stop the other process, or give this one directories of its own"


class DuplicateLogDirError(LogDirError):
    hint = "name each directory once in log.dirs"


class ForeignLogDirError(LogDirError):
    hint = "check node.id and log.dirs; for a new node, begin with empty directories"


class DuplicateLogError(LogDirError):
    hint = "move one of the two directories away: the one on the disk that failed last"


class NoLiveLogDirError(LogDirError):
    hint = "check the disks and their mounts, then start again"


class SegmentGoneError(TailraceError):
    retriable = True
    hint = "read again from the same offset"


class StorageError(TailraceError):
    """A file operation failed. `disk_full` tells a lack of space, which passes, from a failing disk."""

    code = 56
    retriable = True

    def __init__(self, doing: str, cause: OSError) -> None:
        is_named = not isinstance(cause.filename, str) or cause.filename in doing
        place = "" if is_named else f"{cause.filename}: "
        super().__init__(f"{doing}: {place}{cause.strerror or cause}")
        self.cause = cause
        self.disk_full = cause.errno in (errno.ENOSPC, errno.EDQUOT)
        self.hint = _HINTS.get(cause.errno or 0, "check the disk and its mount")  # type: ignore[misc]

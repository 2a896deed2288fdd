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
    │   ├── CorruptMetadataError      a snapshot of the metadata, or the metadata log, cannot be read: do not start
    │   └── CorruptCheckpointError    a text checkpoint cannot be parsed
    ├── InvalidRegularExpressionError 128
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
    │   ├── InvalidProducerIdMappingError 49
    │   ├── ConcurrentTransactionsError 51
    │   ├── ProducerFencedError 90
    │   ├── TransactionalIdNotFoundError 105
    │   ├── TransactionAbortableError 120
    │   └── UnknownProducerIdError    59
    ├── InconsistentMetadataError     a metadata record contradicts those before it: the log is not to be trusted
    ├── UnknownServerError            the server cannot go on with a request, and no other code says why
    ├── ClusterError                  what the controller refuses
    │   ├── TopicAlreadyExistsError   36
    │   ├── InvalidPartitionsError    37
    │   ├── InvalidReplicationFactorError 38
    │   ├── InvalidConfigError        40
    │   ├── RefusedRequestError       42  well-formed, but asks for what makes no sense
    │   ├── OperationNotAttemptedError 55  another part of the same request failed
    │   ├── ReassignmentInProgressError 60
    │   ├── TopicDeletionDisabledError 73
    │   ├── StaleBrokerEpochError     77
    │   ├── PreferredLeaderNotAvailableError 80
    │   ├── EligibleLeadersNotAvailableError 83
    │   ├── ElectionNotNeededError    84
    │   ├── InvalidUpdateVersionError 95
    │   ├── FeatureUpdateFailedError  96
    │   ├── DuplicateBrokerRegistrationError 101
    │   ├── BrokerIdNotRegisteredError 102
    │   ├── InconsistentClusterIdError 104
    │   ├── IneligibleReplicaError    107
    │   ├── NewLeaderElectedError     108
    │   └── InvalidRegistrationError  119
    ├── InconsistentTopicIdError      103
    ├── UnexpectedAppendOffsetError   a follower was given batches below its log end
    ├── LogTruncatingError            6   the log is being cut back: it takes no appends until that is durable
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
    │   ├── LogDirUnreportedError     no controller knows of a failed directory: the broker must stop
    │   └── NoLiveLogDirError         the last directory has failed: the broker must stop
    ├── UnknownTopicOrPartitionError  3
    ├── LeaderNotAvailableError       5
    ├── NotLeaderOrFollowerError      6
    ├── RequestTimedOutError          7
    │   └── RegistrationTimeoutError  the broker could not register with a controller: the process must end
    ├── ReplicaNotAvailableError      9
    ├── CoordinatorLoadInProgressError 14
    ├── CoordinatorNotAvailableError  15
    ├── NotCoordinatorError           16
    ├── InvalidTopicError             17
    ├── NotEnoughReplicasError        19  nothing was written
    ├── NotEnoughReplicasAfterAppendError 20  it was written, and may be lost with one broker
    ├── InvalidRequiredAcksError      21
    ├── GroupError                    what a group's coordinator refuses
    │   ├── OffsetMetadataTooLargeError 12
    │   ├── IllegalGenerationError    22
    │   ├── InconsistentGroupProtocolError 23
    │   ├── InvalidGroupIdError       24
    │   ├── UnknownMemberIdError      25
    │   ├── InvalidSessionTimeoutError 26
    │   ├── RebalanceInProgressError  27
    │   ├── NonEmptyGroupError        68
    │   ├── GroupIdNotFoundError      69
    │   ├── MemberIdRequiredError     79
    │   ├── GroupMaxSizeReachedError  81
    │   ├── FencedInstanceIdError     82
    │   ├── GroupSubscribedToTopicError 86
    │   ├── UnstableOffsetCommitError 88
    │   ├── FencedMemberEpochError    110
    │   ├── UnreleasedInstanceIdError 111
    │   ├── UnsupportedAssignorError  112
    │   └── StaleMemberEpochError     113
    ├── ShareError                    what reading as a share group refuses
    │   ├── InvalidRecordStateError   121
    │   ├── ShareSessionNotFoundError 122
    │   ├── InvalidShareSessionEpochError 123
    │   ├── FencedStateEpochError     124
    │   └── ShareSessionLimitReachedError 133
    ├── TopicAuthorizationError       29
    ├── TransactionalIdAuthorizationError 53
    ├── SecurityDisabledError         54
    ├── BrokerNotAvailableError       8
    ├── NotControllerError            41
    ├── InconsistentVoterSetError     94  the metadata log has other voters than this node: do not start
    ├── DivergedLogError              the metadata log contradicts the leader below what is committed: stop
    ├── PolicyViolationError          44
    ├── InvalidTransactionTimeoutError 50
    ├── FetchSessionIdNotFoundError   70
    ├── InvalidFetchSessionEpochError 71
    ├── FetchSessionTopicIdError      106
    ├── ListenerNotFoundError         72
    ├── FencedLeaderEpochError        74
    ├── UnknownLeaderEpochError       75
    ├── OffsetNotAvailableError       78
    ├── UnknownTopicIdError           100
    ├── MismatchedEndpointTypeError   114
    ├── UnsupportedEndpointTypeError  115
    ├── SegmentGoneError              a reader lost the race against truncation or close: look up again
    └── StorageError                  56  the disk refused; carries the OSError

`code` is Kafka's error code, `retriable` Kafka's retriable bit, `hint` the next step for a person.
"""

from __future__ import annotations

import errno
from typing import ClassVar, Final

from tailrace.model.record_rules import RecordRules, RejectedRecords

_SHORTAGES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
_HINTS: Final = {
    errno.ENOSPC: "free space on the disk",
    errno.EDQUOT: "free space, or ask for a larger quota",
    errno.EACCES: "check the permissions of the file and of the directories above it, and as which user you run",
    errno.EPERM: "check the permissions of the file and of the directories above it, and as which user you run",
    errno.EROFS: "mount the disk for writing, or name another directory",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENFILE: "allow more open files (sysctl fs.file-max)",
}


LONGEST_TEXT: Final = 2000
"""Of an error, in characters."""


class TailraceError(Exception):
    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    hint: ClassVar[str] = ""

    def __str__(self) -> str:
        """Cut where it repeats something endless that was asked for: it must fit into an answer, and into a log."""
        text = super().__str__()
        return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"

    @property
    def name(self) -> str:
        """`CorruptMessageError` → `CORRUPT_MESSAGE`, as Kafka spells it."""
        stem = type(self).__name__.removesuffix("Error")
        return "".join(("_" + c if c.isupper() and i else c).upper() for i, c in enumerate(stem))


class InvalidDataError(TailraceError):
    """`record_index` is the index in its batch of the first record at fault, where single records are.

    `record_rules` are the rules that this record broke; the batch can have more such records. `rejected` lists them
    when the caller has searched the whole batch (`record.rejected`), to report each record to the producer.
    """

    def __init__(
        self, message: str = "", *, record_index: int | None = None, rejected: RejectedRecords | None = None
    ) -> None:
        super().__init__(message)
        self.record_index = record_index
        self.record_rules: RecordRules | None = None
        self.rejected = rejected


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


class CorruptMetadataError(InvalidDataError):
    hint = (
        "if other controllers are healthy, go on as after the loss of a disk: docs/operations/clusters.md; otherwise "
        "restore the directory of the metadata log from a copy: a cluster without it has lost its topics"
    )


class CorruptCheckpointError(InvalidDataError):
    hint = "move the file away: without it the log is opened from what its other files say"


class InvalidRegularExpressionError(TailraceError):
    code = 128
    hint = "write the pattern in the syntax of RE2"


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


class InvalidProducerIdMappingError(ProducerError):
    code = 49
    hint = "the transactional id has another producer id now, or has expired; the producer must initialise again"


class ConcurrentTransactionsError(ProducerError):
    code = 51
    retriable = True
    hint = "send it again in a moment: the transaction before is being ended"


class ProducerFencedError(ProducerError):
    code = 90
    hint = "another producer with the same transactional id took over; close this one"


class TransactionalIdNotFoundError(ProducerError):
    code = 105
    hint = "check the transactional id: no producer has used it, or it has expired"


class TransactionAbortableError(ProducerError):
    code = 120
    hint = "abort the transaction and begin a new one"


class UnknownProducerIdError(ProducerError):
    code = 59
    hint = "the producer's state has expired; ask for a new producer id"


class InconsistentMetadataError(TailraceError):
    hint = "the metadata log is damaged, or was written by a newer release; restore __cluster_metadata-0"


class UnknownServerError(TailraceError):
    code = -1
    hint = "the server's log says more"


class ClusterError(TailraceError):
    pass


class TopicAlreadyExistsError(ClusterError):
    code = 36
    hint = "choose another name, or use the topic that is there"


class InvalidPartitionsError(ClusterError):
    code = 37
    hint = "partitions are 1 or more, and can only be added"


class InvalidReplicationFactorError(ClusterError):
    code = 38
    hint = "use a replication factor up to the number of brokers; for Tailrace brokers, which hold single replicas, 1"


class InvalidConfigError(ClusterError):
    code = 40
    hint = "`tailrace config describe --topic TOPIC --all --docs` describes the settings of a topic"


class RefusedRequestError(ClusterError):
    code = 42


class OperationNotAttemptedError(ClusterError):
    code = 55
    hint = "mend what else failed and send the request again"


class ReassignmentInProgressError(ClusterError):
    code = 60
    hint = "wait for the reassignment to end, or cancel it"


class TopicDeletionDisabledError(ClusterError):
    code = 73
    hint = "set delete.topic.enable=true on the controller"


class StaleBrokerEpochError(ClusterError):
    code = 77
    hint = "the broker has registered again since; it must go on with its new epoch"


class PreferredLeaderNotAvailableError(ClusterError):
    code = 80
    retriable = True
    hint = "start the preferred leader's broker and let it catch up"


class EligibleLeadersNotAvailableError(ClusterError):
    code = 83
    retriable = True
    hint = "start a broker that holds the partition"


class ElectionNotNeededError(ClusterError):
    code = 84
    retriable = True
    hint = "the leader is already the one that the election would choose"


class NoReassignmentInProgressError(ClusterError):
    code = 85
    hint = "list the reassignments: this one has ended or was cancelled"


class InvalidUpdateVersionError(ClusterError):
    code = 95
    hint = "the partition has changed since; the leader waits for newer metadata"


class PrincipalDeserializationError(ClusterError):
    code = 97
    hint = "forward the principal as DefaultPrincipalData, version 0"


class FeatureUpdateFailedError(ClusterError):
    code = 96
    hint = "the features are as they were"


class DuplicateBrokerRegistrationError(ClusterError):
    code = 101
    hint = "give this broker another node.id, or stop the one that has it"


class BrokerIdNotRegisteredError(ClusterError):
    code = 102
    hint = "the broker must register before it does anything else"


class InconsistentClusterIdError(ClusterError):
    code = 104
    hint = "the directory belongs to another cluster: check bootstrap addresses and log.dirs"


class IneligibleReplicaError(ClusterError):
    code = 107
    hint = "the replica's broker is fenced, shutting down or restarted; the ISR stays as it is"


class NewLeaderElectedError(ClusterError):
    code = 108
    hint = "the partition has a new leader; the old one waits for metadata"


class InvalidRegistrationError(ClusterError):
    code = 119
    hint = "update the broker: its registration lacks what this cluster needs"


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


class LogTruncatingError(TailraceError):
    """Retriable, with the code of a broker that does not lead: only a follower's log is truncated."""

    code = 6
    retriable = True
    hint = "append again when the truncation has ended"


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


class UnformattedLogDirError(LogDirError):
    hint = "format it with the id of the cluster: tailrace storage format --config FILE --cluster-id ID"


class DuplicateLogError(LogDirError):
    hint = "move one of the two directories away: the one on the disk that failed last"


class LogDirUnreportedError(LogDirError):
    hint = "check that this host can connect to the controllers; then start again, without the failed directory"


class NoLiveLogDirError(LogDirError):
    hint = "check the disks and their mounts, then start again"


class UnknownTopicOrPartitionError(TailraceError):
    code = 3
    retriable = True
    hint = "create the topic, or wait until the brokers have heard of it"


class LeaderNotAvailableError(TailraceError):
    code = 5
    retriable = True
    hint = "an election or a new topic is on its way; ask for metadata again"


class NotLeaderOrFollowerError(TailraceError):
    code = 6
    retriable = True
    hint = "ask for metadata again and go to the leader it names"


class ShareError(TailraceError):
    pass


class InvalidRecordStateError(ShareError):
    code = 121
    hint = "the records are not held by this member any more: they are delivered again"


class ShareSessionNotFoundError(ShareError):
    code = 122
    retriable = True
    hint = "begin a new share session with epoch 0"


class InvalidShareSessionEpochError(ShareError):
    code = 123
    retriable = True
    hint = "begin a new share session with epoch 0"


class FencedStateEpochError(ShareError):
    code = 124
    hint = "the group's offsets were set anew: read the state again"


class ShareSessionLimitReachedError(ShareError):
    code = 133
    retriable = True
    hint = "raise group.share.max.share.sessions, or come again when other members have left"


class TopicAuthorizationError(TailraceError):
    code = 29
    hint = "topics of the coordinators are for them alone: name another topic"


class TransactionalIdAuthorizationError(TailraceError):
    code = 53
    hint = "send transactional batches in requests that name the transactional id"


class SecurityDisabledError(TailraceError):
    code = 54
    hint = "the broker has no authorizer: every client may do everything"


class InvalidRequiredAcksError(TailraceError):
    code = 21
    hint = "acks is 0, 1 or all (-1)"


class GroupError(TailraceError):
    pass


class OffsetMetadataTooLargeError(GroupError):
    code = 12
    hint = "commit a shorter note with the offset, or raise offset.metadata.max.bytes"


class IllegalGenerationError(GroupError):
    code = 22
    hint = "the group has been balanced since; join it again"


class InconsistentGroupProtocolError(GroupError):
    code = 23
    hint = "give all members of the group one protocol in common"


class InvalidGroupIdError(GroupError):
    code = 24
    hint = "name a group that is not empty"


class UnknownMemberIdError(GroupError):
    code = 25
    hint = "join the group again, without a member id"


class InvalidSessionTimeoutError(GroupError):
    code = 26
    hint = "choose a session timeout from group.min.session.timeout.ms to group.max.session.timeout.ms"


class RebalanceInProgressError(GroupError):
    code = 27
    hint = "join the group again: its partitions are being divided anew"


class NonEmptyGroupError(GroupError):
    code = 68
    hint = "stop the members of the group first"


class GroupIdNotFoundError(GroupError):
    code = 69
    hint = "check the group's name: nobody has joined it or committed offsets under it"


class MemberIdRequiredError(GroupError):
    code = 79
    hint = "join again with the member id of the answer"


class GroupMaxSizeReachedError(GroupError):
    code = 81
    hint = "raise group.max.size, or start fewer members"


class FencedInstanceIdError(GroupError):
    code = 82
    hint = "another member has taken this group.instance.id; give each its own"


class GroupSubscribedToTopicError(GroupError):
    code = 86
    hint = "stop the members that read the topic first"


class UnstableOffsetCommitError(GroupError):
    code = 88
    retriable = True
    hint = "ask again in a moment: a transaction that has offsets of the partition is about to end"


class FencedMemberEpochError(GroupError):
    code = 110
    hint = "give up all partitions and join again with epoch 0"


class UnreleasedInstanceIdError(GroupError):
    code = 111
    hint = "wait until the member of this group.instance.id has left, or its session has ended"


class UnsupportedAssignorError(GroupError):
    code = 112
    hint = "choose one of group.consumer.assignors"


class StaleMemberEpochError(GroupError):
    code = 113
    hint = "send a heartbeat, and try again with the epoch of its answer"


class StreamsInvalidTopologyError(GroupError):
    code = 130
    hint = "mend the topology of the application"


class FetchSessionIdNotFoundError(TailraceError):
    code = 70
    retriable = True
    hint = "begin a new fetch session"


class InvalidFetchSessionEpochError(TailraceError):
    code = 71
    retriable = True
    hint = "begin a new fetch session"


class FetchSessionTopicIdError(TailraceError):
    code = 106
    retriable = True
    hint = "begin a new fetch session, with topic ids in all requests of it or in none"


class RequestTimedOutError(TailraceError):
    code = 7
    retriable = True
    hint = "send it again, with a longer timeout where it was short"


class RegistrationTimeoutError(RequestTimedOutError):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint  # type: ignore[misc]


class ReplicaNotAvailableError(TailraceError):
    code = 9
    retriable = True
    hint = "the broker has no replica of the partition; ask one that has"


class CoordinatorLoadInProgressError(TailraceError):
    code = 14
    retriable = True
    hint = "send it again in a moment"


class CoordinatorNotAvailableError(TailraceError):
    code = 15
    retriable = True
    hint = "look for the coordinator again in a moment"


class NotCoordinatorError(TailraceError):
    code = 16
    retriable = True
    hint = "look for the coordinator again and go there"


class InvalidTopicError(TailraceError):
    code = 17
    hint = "a topic's name has 1 to 249 ASCII letters, digits, '.', '_' and '-'"

    @property
    def name(self) -> str:
        return "INVALID_TOPIC_EXCEPTION"


class NotEnoughReplicasError(TailraceError):
    code = 19
    retriable = True
    hint = "send it again when more replicas are in sync, or lower min.insync.replicas"


class NotEnoughReplicasAfterAppendError(TailraceError):
    code = 20
    retriable = True
    hint = "the records are in the log; a producer without idempotence that sends them again writes them twice"


class BrokerNotAvailableError(TailraceError):
    code = 8
    hint = "the node starts or ends: try again"


class NotControllerError(TailraceError):
    code = 41
    retriable = True
    hint = "ask for the controller again and go there"


class InconsistentVoterSetError(TailraceError):
    code = 94
    hint = "check node.id and the directory; a metadata quorum of more than one voter cannot be joined yet"


class DivergedLogError(TailraceError):
    hint = "stop the node, move its metadata log aside, and let it fetch the log again"


class PolicyViolationError(TailraceError):
    code = 44
    hint = "change the setting that forbids it, or do without"


class InvalidTransactionTimeoutError(TailraceError):
    code = 50
    hint = "choose a timeout from 1 to transaction.max.timeout.ms"


class ListenerNotFoundError(TailraceError):
    code = 72
    retriable = True
    hint = "give every broker a listener of that name"


class FencedLeaderEpochError(TailraceError):
    code = 74
    retriable = True
    hint = "ask for metadata again: there is a newer leader"


class UnknownLeaderEpochError(TailraceError):
    code = 75
    retriable = True
    hint = "send it again in a moment: the broker has not heard of that leader yet"


class OffsetNotAvailableError(TailraceError):
    code = 78
    retriable = True
    hint = "send it again in a moment: the new leader does not know yet what is committed"


class UnknownTopicIdError(TailraceError):
    code = 100
    retriable = True
    hint = "ask for metadata again: the topic is new, or was deleted"


class MismatchedEndpointTypeError(TailraceError):
    code = 114
    hint = "brokers and controllers have listeners of their own; ask at the other one"


class UnsupportedEndpointTypeError(TailraceError):
    code = 115
    hint = "ask for brokers (1) or controllers (2)"


class SegmentGoneError(TailraceError):
    retriable = True
    hint = "read again from the same offset"


class StorageError(TailraceError):
    """A file operation failed. `is_shortage` tells a lack, which passes, from a failing disk: of space, or of file
    descriptors, which may not even be the broker's own doing."""

    code = 56
    retriable = True

    def __init__(self, doing: str, cause: OSError) -> None:
        is_named = not isinstance(cause.filename, str) or cause.filename in doing
        place = "" if is_named else f"{cause.filename}: "
        super().__init__(f"{doing}: {place}{cause.strerror or cause}")
        self.cause = cause
        self.is_shortage = cause.errno in _SHORTAGES
        self.hint = _HINTS.get(cause.errno or 0, "check the disk and its mount")  # type: ignore[misc]

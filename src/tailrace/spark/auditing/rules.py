"""The rules of an audit: each has a name that stays, a severity, and a sentence for people.

    error     data is damaged, missing or not what another file says of it
    warning   nothing is damaged, but somebody should look: a transaction that blocks readers, keys not compacted
    note      worth knowing, and no fault: files that went away while they were read, leftovers of a crash

Errors and warnings make the exit code 1. Notes are only shown when they are asked for.
"""

from __future__ import annotations

from typing import Final, NamedTuple

ERROR: Final = "error"
WARNING: Final = "warning"
NOTE: Final = "note"


class Rule(NamedTuple):
    name: str
    severity: str
    meaning: str


# Files and folders
UNREADABLE: Final = "unreadable"
GONE: Final = "gone"
CHANGED: Final = "changed"
LEFTOVER: Final = "leftover"
STRAY_FILE: Final = "stray-file"
METADATA: Final = "metadata"
CHECKPOINT: Final = "checkpoint"
MIXED_CLUSTERS: Final = "mixed-clusters"
UNKNOWN_FORMAT: Final = "unknown-format"
# Bytes of a segment
BAD_FRAME: Final = "bad-frame"
TRUNCATED: Final = "truncated"
TRAILING_BYTES: Final = "trailing-bytes"
CRC: Final = "crc"
BAD_HEADER: Final = "bad-header"
BAD_COMPRESSION: Final = "bad-compression"
BAD_RECORD: Final = "bad-record"
BAD_CONTROL: Final = "bad-control"
# Offsets and epochs
OFFSET_ORDER: Final = "offset-order"
OFFSET_GAP: Final = "offset-gap"
COMPACTED_GAP: Final = "compacted-gap"
OFFSET_RANGE: Final = "offset-range"
LOST_START: Final = "lost-start"
EPOCH_ORDER: Final = "epoch-order"
EPOCH_CHECKPOINT: Final = "epoch-checkpoint"
# Indexes and snapshots
OFFSET_INDEX: Final = "offset-index"
TIME_INDEX: Final = "time-index"
TRANSACTION_INDEX: Final = "transaction-index"
INDEX_MISSING: Final = "index-missing"
ORPHAN_INDEX: Final = "orphan-index"
SNAPSHOT: Final = "snapshot"
SNAPSHOT_ORDER: Final = "snapshot-order"
SNAPSHOT_STATE: Final = "snapshot-state"
# Producers and transactions
SEQUENCE_GAP: Final = "sequence-gap"
SEQUENCE_TWICE: Final = "sequence-twice"
PRODUCER_EPOCH: Final = "producer-epoch"
ABORT_WITHOUT_MARKER: Final = "abort-without-marker"
UNINDEXED_ABORT: Final = "unindexed-abort"
MARKER_WITHOUT_TRANSACTION: Final = "marker-without-transaction"
TRANSACTION_WITHOUT_MARKER: Final = "transaction-without-marker"
HANGING_TRANSACTION: Final = "hanging-transaction"
COORDINATOR_EPOCH: Final = "coordinator-epoch"
# Compaction and replicas
SUPERSEDED_KEY: Final = "superseded-key"
KEYLESS_RECORD: Final = "keyless-record"
REPLICA_DIVERGENCE: Final = "replica-divergence"
REPLICA_MISSING: Final = "replica-missing"

_ALL: Final = (
    Rule(UNREADABLE, ERROR, "a file or folder cannot be read"),
    Rule(GONE, NOTE, "a file went away while the audit ran"),
    Rule(CHANGED, NOTE, "a file was changed while the audit ran, and was looked at again"),
    Rule(LEFTOVER, NOTE, "a file that is deleted or finished when the log is opened"),
    Rule(STRAY_FILE, NOTE, "a file that is none of a log's"),
    Rule(METADATA, ERROR, "partition.metadata cannot be read, or folders of one topic have different topic ids"),
    Rule(CHECKPOINT, ERROR, "a checkpoint of the log directory cannot be read, or says what cannot be"),
    Rule(MIXED_CLUSTERS, WARNING, "log directories of different clusters were given; they are not compared"),
    Rule(UNKNOWN_FORMAT, WARNING, "a format that this version does not know"),
    Rule(BAD_FRAME, ERROR, "bytes that are no batch stand where one should begin"),
    Rule(TRUNCATED, ERROR, "a file ends within a batch, or before the offsets that it should hold"),
    Rule(TRAILING_BYTES, ERROR, "bytes that are no batch stand behind the last one"),
    Rule(CRC, ERROR, "a batch does not have the CRC that it states"),
    Rule(BAD_HEADER, ERROR, "fields of a batch's header that cannot be"),
    Rule(BAD_COMPRESSION, ERROR, "a compressed batch cannot be decompressed"),
    Rule(BAD_RECORD, ERROR, "a batch does not have the records that it states"),
    Rule(BAD_CONTROL, ERROR, "a control batch cannot be read"),
    Rule(OFFSET_ORDER, ERROR, "a batch begins at or below an offset that the log has already: swapped or doubled"),
    Rule(OFFSET_GAP, ERROR, "offsets are missing that compaction cannot have taken"),
    Rule(COMPACTED_GAP, NOTE, "offsets are missing above the cleaner's point: taken where they were copied from"),
    Rule(OFFSET_RANGE, ERROR, "a batch holds offsets that its segment cannot have"),
    Rule(LOST_START, WARNING, "leader epochs begin before the first segment: one may be gone"),
    Rule(EPOCH_ORDER, ERROR, "the leader epoch of a batch is below that of one before it"),
    Rule(EPOCH_CHECKPOINT, ERROR, "leader-epoch-checkpoint is lost, unreadable, does not ascend, or batches differ"),
    Rule(OFFSET_INDEX, ERROR, "the offset index says what is not true of its segment"),
    Rule(TIME_INDEX, ERROR, "the time index says what is not true of its segment"),
    Rule(TRANSACTION_INDEX, ERROR, "the transaction index cannot be read, or says what is not true of its segment"),
    Rule(INDEX_MISSING, NOTE, "a segment has no index; it is made anew when the log is opened"),
    Rule(ORPHAN_INDEX, ERROR, "an index stands without its segment"),
    Rule(SNAPSHOT, ERROR, "a producer snapshot cannot be read"),
    Rule(SNAPSHOT_ORDER, ERROR, "a producer snapshot knows what comes behind it, or lies behind a closed log's end"),
    Rule(SNAPSHOT_STATE, ERROR, "a producer snapshot says otherwise of a producer than the log does"),
    Rule(SEQUENCE_GAP, ERROR, "sequence numbers of a producer are missing"),
    Rule(SEQUENCE_TWICE, ERROR, "sequence numbers of a producer come twice"),
    Rule(PRODUCER_EPOCH, ERROR, "the epoch of a producer falls"),
    Rule(ABORT_WITHOUT_MARKER, ERROR, "the transaction index names an abort whose marker is not in the log"),
    Rule(UNINDEXED_ABORT, ERROR, "an abort marker ended a transaction that the transaction index does not name"),
    Rule(MARKER_WITHOUT_TRANSACTION, WARNING, "a marker ends a transaction that has no records here"),
    Rule(TRANSACTION_WITHOUT_MARKER, ERROR, "a producer went on without a marker for its last transaction"),
    Rule(HANGING_TRANSACTION, WARNING, "a transaction is open for longer than any may be; it blocks committed readers"),
    Rule(COORDINATOR_EPOCH, ERROR, "the coordinator epoch of a producer's markers falls"),
    Rule(SUPERSEDED_KEY, WARNING, "below the cleaner's point a key has records older than its newest"),
    Rule(KEYLESS_RECORD, WARNING, "below the cleaner's point a record has no key"),
    Rule(REPLICA_DIVERGENCE, ERROR, "replicas of a partition differ at the same offset"),
    Rule(REPLICA_MISSING, ERROR, "a replica lacks a batch or key that another one has"),
)

RULES: Final[dict[str, Rule]] = {rule.name: rule for rule in _ALL}

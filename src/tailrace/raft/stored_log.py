"""How far the metadata log in a directory reaches and which voters it names, read without opening the log.

The end is that of the last whole batch: a start may cut off less or more of what a crash has left. The voters are those
of the last record of voters, committed or not, as a controller that starts takes them.

Who may call. Any thread of any process, also while a node uses the directory: the result is then of some moment.
"""

from __future__ import annotations

from typing import NamedTuple

from tailrace.env import Files
from tailrace.model.errors import (
    CorruptMessageError,
    CorruptMetadataError,
    InvalidDataError,
    MessageTooLargeError,
    SegmentGoneError,
    StorageError,
)
from tailrace.raft.consensus.messages import VoterChange
from tailrace.raft.consensus.voter_log import VoterLog
from tailrace.raft.fetched_batches import voter_changes_of
from tailrace.raft.snapshot import SUFFIX, SnapshotId, SnapshotReader, parse_name
from tailrace.raft.voters import STATIC_VOTERS, Voter
from tailrace.record.shallow import next_batch
from tailrace.storage.names import LOG_SUFFIX, join, parse_offset
from tailrace.storage.records_file import RecordsFile
from tailrace.storage.warm import WarmSet


class StoredLog(NamedTuple):
    """Without `voters`, those of the settings count."""

    end_offset: int
    epoch: int
    voters: tuple[Voter, ...] | None


def read_stored_log(files: Files, directory: str) -> StoredLog | None:
    """Of the partition directory of the metadata log; None if it has neither a log nor a snapshot.

    CorruptMetadataError, StorageError.
    """
    try:
        names = [entry.name for entry in files.list(directory)]
    except FileNotFoundError:
        return None
    except OSError as cause:
        raise StorageError(f"read {directory}", cause) from cause
    segments = sorted(name for name in names if name.endswith(LOG_SUFFIX) and parse_offset(name) is not None)
    newest = _newest_snapshot(names)
    if newest is None and not segments:
        return None
    voters, end, epoch = VoterLog.configured(()), 0, 0
    if newest is not None:
        head = SnapshotReader(files, join(directory, newest.name)).head()
        voters.append(VoterChange(newest.offset - 1, head.kraft_version, head.voters))
        end, epoch = newest.offset, newest.epoch
    for name in segments:
        found = _read_segment(files, join(directory, name), voters)
        if found is not None and found[0] > end:
            end, epoch = found
    latest = voters.latest
    return StoredLog(end, epoch, latest.voters if latest.kraft_version > STATIC_VOTERS else None)


def _newest_snapshot(names: list[str]) -> SnapshotId | None:
    found = [parsed.id for name in names if (parsed := parse_name(name)) is not None and parsed.suffix == SUFFIX]
    return max(found, default=None)


def _read_segment(files: Files, path: str, voters: VoterLog) -> tuple[int, int] | None:
    """Adds what its control batches say of the voters; the end offset and the epoch of its last whole batch."""
    end = None
    try:
        file = RecordsFile(files, path, WarmSet(1), size=files.size(path))
        try:
            for position, batch in file.headers(0):
                if batch.is_control:
                    data = file.read(position, batch.size)
                    whole = next_batch(data, 0, len(data))
                    if whole is None:
                        break
                    for change in voter_changes_of(data, whole):
                        if change.offset > voters.latest.offset:
                            voters.append(change)
                end = batch.next_offset, batch.leader_epoch
        except (CorruptMessageError, SegmentGoneError):
            return end  # a start cuts off what a crash has left, and a running node what others have not
        finally:
            file.close()
    except OSError as cause:
        raise StorageError(f"read {path}", cause) from cause
    except (InvalidDataError, MessageTooLargeError) as error:
        raise CorruptMetadataError(f"{path}: {error}") from error
    return end

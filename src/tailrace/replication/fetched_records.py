"""What a fetch response has brought, appended to the logs of the partitions that this broker follows.

A fetcher gives all partitions of a response in one call. For each of them:

    1  the fetch must be of the partition's present leader epoch, and have asked for what follows the log end; otherwise
       the partition has changed since, and the fetcher asks again
    2  the records go into the log, see `storage/follower_append.py`
    3  the high watermark follows the leader's up to the log end, and the log start up to the high watermark

One case needs the disk first. The leader's log start can lie inside of a batch (delete-records). A follower whose empty
log begins there is sent the whole batch, which begins below the follower's log end. Then the log starts over at the
offset of that batch, and the records are appended when that is durable.

A log that ends below the leader's log start is not a case for an append: its fetch is refused as out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from tailrace.env import Buffer
from tailrace.model.errors import OffsetOutOfRangeError, TailraceError, UnexpectedAppendOffsetError
from tailrace.model.ids import TopicPartition
from tailrace.replication.partition import Partition
from tailrace.storage.follower_append import FollowerAppender
from tailrace.storage.unified_log import UnifiedLog


class LogRestarts(Protocol):
    """What starts logs over: the log manager."""

    def truncate_fully_and_start_at(
        self,
        partition: TopicPartition,
        offset: int,
        done: Callable[[dict[TopicPartition, TailraceError]], None],
        log_start: int | None = None,
        is_wanted: Callable[[TopicPartition], bool] = ...,
    ) -> None: ...


class FetchedRecords(NamedTuple):
    """Of one partition of a response. `leader_epoch` and `fetch_offset` are those of the request."""

    partition: Partition
    leader_epoch: int
    fetch_offset: int
    records: Buffer
    high_watermark: int
    log_start_offset: int


class Followed(NamedTuple):
    """What became of it. `log_end_offset` is where the next fetch begins, if there is no error.

    After a CorruptMessageError or InvalidRecordError the same records may be fetched again: nothing was written, or, of
    a response larger than a segment, whole segments before the damage.
    """

    partition: Partition
    log_end_offset: int
    error: TailraceError | None = None


class FollowerAppends:
    """Used by all fetchers of a node, on the thread that owns its logs."""

    def __init__(self, restarts: LogRestarts) -> None:
        self._restarts = restarts
        self._appender = FollowerAppender()

    def append(self, fetched: Sequence[FetchedRecords], done: Callable[[list[Followed]], None]) -> None:
        """`done` gets a result for each, in order: before this returns, unless a log must start over."""
        results: list[Followed | None] = [None] * len(fetched)
        left = len(fetched)

        def ended(index: int, result: Followed) -> None:
            nonlocal left
            left -= 1
            results[index] = result
            if not left:
                done([each for each in results if each is not None])

        if not fetched:
            done([])
        for index, each in enumerate(fetched):
            self._append(each, partial(ended, index))

    def _append(self, fetched: FetchedRecords, ended: Callable[[Followed], None]) -> None:
        try:
            log = _log_of(fetched)
            result = self._append_now(fetched, log)
        except UnexpectedAppendOffsetError as error:
            if (
                log.log_start_offset == log.log_end_offset
                and error.first_offset < log.log_end_offset <= error.last_offset
            ):
                again = partial(self._append_again, fetched._replace(fetch_offset=error.first_offset), ended)
                is_wanted = partial(_is_wanted, fetched)
                self._restarts.truncate_fully_and_start_at(
                    fetched.partition.id, error.first_offset, again, is_wanted=is_wanted
                )
                return
            result = _failed(fetched, error)
        except TailraceError as error:
            result = _failed(fetched, error)
        ended(result)

    def _append_again(
        self,
        fetched: FetchedRecords,
        ended: Callable[[Followed], None],
        errors: Mapping[TopicPartition, TailraceError],
    ) -> None:
        """The log has started over, or could not."""
        try:
            for error in errors.values():
                raise error
            result = self._append_now(fetched, _log_of(fetched))
        except TailraceError as error:
            result = _failed(fetched, error)
        ended(result)

    def _append_now(self, fetched: FetchedRecords, log: UnifiedLog) -> Followed:
        if len(fetched.records):
            self._appender.append(log, fetched.records, fetched.leader_epoch)
        fetched.partition.follow_leader(log, fetched.high_watermark, fetched.log_start_offset)
        return Followed(fetched.partition, log.log_end_offset)


def _log_of(fetched: FetchedRecords) -> UnifiedLog:
    log = fetched.partition.log_to_follow(fetched.leader_epoch)
    if fetched.fetch_offset != log.log_end_offset:
        raise OffsetOutOfRangeError(
            f"{fetched.partition.id} was fetched from {fetched.fetch_offset}, and its log ends at {log.log_end_offset}"
        )
    return log


def _is_wanted(fetched: FetchedRecords, partition: TopicPartition) -> bool:
    """Whether the records can still be appended to an empty log."""
    try:
        log = _log_of(fetched)
    except TailraceError:
        return False
    return log.log_start_offset == log.log_end_offset


def _failed(fetched: FetchedRecords, error: TailraceError) -> Followed:
    log = fetched.partition.log
    end = fetched.fetch_offset if log is None else log.log_end_offset
    return Followed(fetched.partition, end, error=error.with_traceback(None))

"""Putting new segments in the place of old ones so that a crash leaves the old log or the new one, nothing else.

    1  the new segments are whole and synced under `.cleaned`, these names too
    2  `.cleaned` → `.swap`, the data file with the lowest base offset last and alone, with the directory synced before
       and after: from here on the new ones win
    3  the old segments leave the log and are renamed `.deleted`, and the directory is synced
    4  `.swap` is dropped from the names: from data files one by one, highest base offset first, then from indexes

A load that finds a `.cleaned` file removes it, and before it every `.swap` at or above its offset, since step 2 was not
finished. A load that finds only `.swap` files finishes steps 3 and 4. Of renames that were not synced a crash keeps
any; hence the syncs: a lone `.swap` in the middle would take the place of what its neighbours hold, and the index of
a segment whose data is still `.swap` would be taken for the old one's.

In steps, so that nobody waits for a sync who need not: `.cleaned` segments are nobody's yet and are renamed on any
thread; those that are in the log, or leave it, by its owner. Between the steps the log is read and appended to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tailrace.model.errors import CorruptMessageError, StorageError
from tailrace.record.shallow import check_integrity
from tailrace.storage import names
from tailrace.storage.segment import LogSegment, SegmentPlace
from tailrace.storage.segments import LogSegments
from tailrace.storage.steps import Steps, run_inline

_log = logging.getLogger(__name__)

COPY_BYTES: Final = 1 << 20


def replace_segments(
    place: SegmentPlace, segments: LogSegments, old: Sequence[LogSegment], new: Sequence[LogSegment]
) -> None:
    """All of `replacing` at once."""
    run_inline(replacing(place, partial(segments.swap, old, new), old, new))


def replacing(
    place: SegmentPlace, put_in: Callable[[], None], old: Sequence[LogSegment], new: Sequence[LogSegment]
) -> Steps[None]:
    """`new` carry the suffix `.cleaned`; the first of them has the base offset of the first of `old`.

    `put_in` puts them in the place of `old` in memory. Once begun all of it must be done: half way the files say one
    thing and the log another.
    """
    newest_first = sorted(new, key=lambda segment: segment.base_offset, reverse=True)
    sync_names = partial(place.env.files.sync_dir, place.dir)
    yield partial(_become_swaps_or_go, place, newest_first)
    put_in()
    retire_data(old)
    if _has_transactions(old):
        yield sync_names
    retire_indexes(old)
    yield sync_names
    for segment in newest_first:
        segment.records.change_suffix(names.SWAP_SUFFIX, "")
        yield sync_names
    for segment in newest_first:
        segment.change_index_suffix(names.SWAP_SUFFIX, "")
    yield sync_names
    delete_later(place, old)


def _become_swaps_or_go(place: SegmentPlace, newest_first: Sequence[LogSegment]) -> None:
    try:
        _become_swaps(place, newest_first)
    except OSError as cause:
        give_up_if_full(place, newest_first, cause)
        raise


def give_up_if_full(place: SegmentPlace, new: Sequence[LogSegment], cause: OSError) -> None:
    """Before anything was put in: on a full disk the new segments go, and the log stays as it is. Then they
    `were_given_up`. With any other error the disk is not asked for more."""
    if StorageError(f"swap in {place.dir}", cause).is_shortage:
        _give_up(place, sorted(new, key=lambda segment: segment.base_offset, reverse=True))


def were_given_up(new: Sequence[LogSegment]) -> bool:
    """Whether a swap that failed has left nothing behind."""
    return all(segment.is_deleted for segment in new)


def _give_up(place: SegmentPlace, newest_first: Sequence[LogSegment]) -> None:
    """The lowest data file goes last, as `.cleaned`: as long as it is there, a load drops every `.swap` beside it."""
    sync_names = partial(place.env.files.sync_dir, place.dir)
    lowest = newest_first[-1]
    if lowest.records.path.endswith(names.SWAP_SUFFIX):
        lowest.records.change_suffix(names.SWAP_SUFFIX, names.CLEANED_SUFFIX)
        sync_names()
    for segment in newest_first[:-1]:
        segment.delete()
    lowest.delete_indexes()
    sync_names()
    lowest.delete()
    sync_names()


def _become_swaps(place: SegmentPlace, newest_first: Sequence[LogSegment]) -> None:
    files = place.env.files
    for segment in newest_first:
        segment.sync()
    for segment in newest_first:
        segment.change_index_suffix(names.CLEANED_SUFFIX, names.SWAP_SUFFIX)
    for segment in newest_first[:-1]:
        segment.records.change_suffix(names.CLEANED_SUFFIX, names.SWAP_SUFFIX)
    files.sync_dir(place.dir)
    newest_first[-1].records.change_suffix(names.CLEANED_SUFFIX, names.SWAP_SUFFIX)
    files.sync_dir(place.dir)


def delete_later(place: SegmentPlace, segments: Sequence[LogSegment]) -> None:
    """Unlink the files of retired segments after `file.delete.delay.ms`; readers that are at them finish before."""
    jobs = place.env.jobs

    def unlink() -> None:
        for segment in segments:
            segment.delete()

    def left(error: Exception) -> None:
        if not isinstance(error, OSError):
            raise error
        _log.error("%s: files of removed segments stay until the next load: %s", place.dir, error)

    def start() -> None:
        jobs.run("delete-file", unlink, failed=left, can_wait=True)

    jobs.later("delete-file", place.config.file_delete_delay_ms, start)


def retire(place: SegmentPlace, segments: Sequence[LogSegment]) -> None:
    """Rename the files of segments that are out of the log to `.deleted`; `delete_later` unlinks them.

    A transaction index goes only when its data is durably gone: data that a crash brings back without it would show
    aborted records, and below the recovery point nobody would miss the index. The other indexes would be missed.
    """
    retire_data(segments)
    if _has_transactions(segments):
        place.env.files.sync_dir(place.dir)
    retire_indexes(segments)


def _has_transactions(segments: Sequence[LogSegment]) -> bool:
    return any(segment.txn_index.entries for segment in segments)


def retire_data(segments: Sequence[LogSegment]) -> None:
    """The first half of `retire`."""
    for segment in segments:
        segment.is_deleted = True
        segment.records.change_suffix("", names.DELETED_SUFFIX)


def retire_indexes(segments: Sequence[LogSegment]) -> None:
    """The second half of `retire`: where there are transactions, after the first one is durable."""
    for segment in segments:
        segment.change_index_suffix("", names.DELETED_SUFFIX)


def split_overflowing(place: SegmentPlace, segments: LogSegments, segment: LogSegment) -> list[LogSegment]:
    """Cut a segment whose offsets span more than an int32 into ones that do not; returns what replaces it.

    Only brokers of long ago wrote such segments. Bytes are copied as they are; the first new segment has the base
    offset of the old one even if nothing is left to stand in it. Damage is no place to cut at: it goes, with
    everything behind it, into the last segment, where recovery finds it. The new ones have no indexes: the load makes
    them, as it does for any data without an index.
    """
    made = [LogSegment.create(place, segment.base_offset, names.CLEANED_SUFFIX)]
    copied_bytes, next_offset = 0, segment.base_offset
    try:
        for position, batch in segment.records.headers(0):
            data = segment.records.read(position, batch.size)
            base = batch.base_offset if batch.is_v2 else batch.last_offset
            if not next_offset <= base <= batch.last_offset:
                break
            if not made[-1].can_hold(batch.last_offset):
                check_integrity(data, batch._replace(position=0))
                made.append(LogSegment.create(place, base, names.CLEANED_SUFFIX))
            made[-1].records.append((data,), len(data))
            copied_bytes, next_offset = position + batch.size, batch.next_offset
    except CorruptMessageError as error:
        _log.warning("%r: %s", segment, error)
    while copied_bytes < segment.size:
        rest = segment.records.read(copied_bytes, min(COPY_BYTES, segment.size - copied_bytes))
        made[-1].records.append((rest,), len(rest))
        copied_bytes += len(rest)
    for each in made:
        each.become_inactive()
        each.drop_indexes()
    replace_segments(place, segments, [segment], made)
    return made

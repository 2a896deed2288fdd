"""What a swap or a deletion that was cut short has left in a log's directory, brought to its end at the next load.

    `.deleted`, `.cleaned`, `.tmp`     go
    `.swap` at or above a `.cleaned`   go: the swap had not got as far as to count
    the other `.swap`                  take the place of the segments they were made from

Crash rule. The order is that of `swap`, each step durable before the next: until the last one, a load that is
interrupted comes to the same end when it is begun again.

Who may call. The load, before any segment of the log is open.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from tailrace.storage import names
from tailrace.storage.segment import LogSegment, SegmentPlace

_log = logging.getLogger(__name__)


def settle_interrupted_swap(place: SegmentPlace) -> None:
    listed = [entry.name for entry in place.env.files.list(place.dir) if not entry.is_dir]
    cleaned = [name for name in listed if name.endswith(names.CLEANED_SUFFIX)]
    first_cleaned = min(_offsets_of(cleaned), default=None)
    swaps: list[str] = []
    unfinished: list[str] = []
    for name in listed:
        offset = names.parse_offset(name)
        if name.endswith(names.SWAP_SUFFIX) and offset is not None:
            is_unfinished = first_cleaned is not None and offset >= first_cleaned
            (unfinished if is_unfinished else swaps).append(name)
    gone = [name for name in listed if name.endswith((names.DELETED_SUFFIX, names.TEMPORARY_SUFFIX))] + cleaned
    gone += _superseded_by(place, swaps, listed)
    _remove(place, unfinished)
    _remove(place, gone)
    data = [name for name in swaps if name.endswith(names.LOG_SUFFIX + names.SWAP_SUFFIX)]
    for name in sorted(data, reverse=True):
        _swap_in(place, [name])
    _swap_in(place, [name for name in swaps if name not in data])


def _remove(place: SegmentPlace, listed: list[str]) -> None:
    for name in listed:
        _log.info("%s: remove %s", place.dir, name)
        place.env.files.unlink(place.path(name))
    if listed:
        place.env.files.sync_dir(place.dir)


def _swap_in(place: SegmentPlace, listed: list[str]) -> None:
    for name in listed:
        _log.info("%s: finish the swap of %s", place.dir, name)
        place.env.files.rename(place.path(name), place.path(name.removesuffix(names.SWAP_SUFFIX)))
    if listed:
        place.env.files.sync_dir(place.dir)


def _offsets_of(listed: list[str]) -> Iterator[int]:
    for name in listed:
        offset = names.parse_offset(name)
        if offset is not None:
            yield offset


def _superseded_by(place: SegmentPlace, swaps: list[str], listed: list[str]) -> list[str]:
    """Files of the segments that the swapped-in ones replace."""
    swapped_logs = [name for name in swaps if name == names.log_name(names.offset_of(name)) + names.SWAP_SUFFIX]
    if not swapped_logs:
        return []
    bases = [names.offset_of(name) for name in swapped_logs]
    first = min(bases)
    end = max(_end_of_swap(place, base) for base in bases)
    superseded = []
    for name in listed:
        offset = names.parse_offset(name)
        is_segment_file = name.endswith((names.LOG_SUFFIX, *names.INDEX_SUFFIXES))
        if is_segment_file and offset is not None and first <= offset < end:
            superseded.append(name)
    return superseded


def _end_of_swap(place: SegmentPlace, base_offset: int) -> int:
    segment = LogSegment.open(place, base_offset, names.SWAP_SUFFIX)
    try:
        return segment.walk_to_end()
    finally:
        segment.release()

"""From where a query begins and where a batch ends, as it was asked for, to offsets of partitions.

A position that names partitions has to name all that are read, and no others. A time stands for the first record at or
after it; where there is none, a read ends at the end, and begins there or not at all, as
`startingOffsetsByTimestampStrategy` says.

Offsets that were given are taken as they are: whether the log has them is seen when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, Protocol

from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import OptionError
from tailrace.spark.options.partition_numbers import named
from tailrace.spark.options.positions import EARLIEST, LATEST, AtOffsets, AtTime, AtTimes, Earliest, Latest, Position
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.ranges import Bounds, OffsetRange

_Side = Literal["starting", "ending"]


class Lookup(Protocol):
    """The part of an origin that is needed here."""

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]: ...

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...


def resolve_start(
    options: SourceOptions, origin: Lookup, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """OptionError where the position does not fit the partitions, or has no offset for one."""
    wanted = list(partitions)
    found = _offsets(options.starting, "starting", origin, wanted)
    missing = [each for each in wanted if found[each] is None]
    if missing and options.timestamp_strategy == "error":
        first = missing[0]
        raise OptionError(
            f"{first} has no record at or after {_time_of(options.starting, first)} ms, where it is to start; "
            "startingOffsetsByTimestampStrategy=latest would start it at its end"
        )
    return _filled(found, missing, origin)


def resolve_end(
    options: SourceOptions, origin: Lookup, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    wanted = list(partitions)
    found = _offsets(options.ending, "ending", origin, wanted)
    return _filled(found, [each for each in wanted if found[each] is None], origin)


def checked_ranges(
    options: SourceOptions, origin: Lookup, partitions: Mapping[TopicPartition, str | None], loss: LossPolicy
) -> list[OffsetRange]:
    """What a batch reads: start to end of each partition, cut to what the log has. What it has not is told as lost."""
    starts = resolve_start(options, origin, partitions)
    ends = resolve_end(options, origin, partitions)
    bounds = origin.bounds(partitions)
    ranges = []
    for each in sorted(partitions):
        start, end, has = starts[each], ends[each], bounds[each]
        if start > end and isinstance(options.ending, AtOffsets | AtTimes | AtTime):
            raise OptionError(f"{each} is to start at offset {start}, behind its end, {end}")
        if start < has.start and start < end and _is_number(options.starting, each):
            loss.lost(each, start, min(has.start, end), f"the log begins at {has.start}")
        if max(start, end) > has.end:
            loss.lost(each, has.end, max(start, end), f"the log ends at {has.end}")
        ranges.append(OffsetRange(each, max(start, has.start), min(end, has.end), partitions[each]))
    return ranges


def _offsets(
    position: Position, side: _Side, origin: Lookup, partitions: list[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """None where no record is late enough."""
    if isinstance(position, AtTime):
        return origin.at_times(dict.fromkeys(partitions, position.time_ms)) if partitions else {}
    if isinstance(position, AtTimes):
        _check_named(f"{side}OffsetsByTimestamp", position.times_ms, partitions, "")
        return origin.at_times(position.times_ms) if partitions else {}
    if isinstance(position, AtOffsets):
        _check_named(f"{side}Offsets", position.offsets, partitions, "; -2 stands for earliest, -1 for latest")
        given: dict[TopicPartition, int] = dict(position.offsets)
    else:
        assert isinstance(position, Earliest | Latest)
        given = dict.fromkeys(partitions, EARLIEST if isinstance(position, Earliest) else LATEST)
    open_ones = [each for each, offset in given.items() if offset in (EARLIEST, LATEST)]
    bounds = origin.bounds(open_ones) if open_ones else {}
    return {
        each: offset if each not in bounds else bounds[each].start if offset == EARLIEST else bounds[each].end
        for each, offset in given.items()
    }


def _filled(
    found: Mapping[TopicPartition, int | None], missing: list[TopicPartition], origin: Lookup
) -> dict[TopicPartition, int]:
    ends = origin.bounds(missing) if missing else {}
    return {each: ends[each].end if offset is None else offset for each, offset in found.items()}


def _check_named(
    option: str, given: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], hint: str
) -> None:
    wanted = set(partitions)
    if wanted == given.keys():
        return
    missing, others = wanted - given.keys(), given.keys() - wanted
    faults = [
        *([f"it lacks {named(missing)}"] if missing else []),
        *([f"it has {named(set(others))}, which the query does not read"] if others else []),
    ]
    raise OptionError(f"option {option} must name every partition that is read: {' and '.join(faults)}{hint}")


def _is_number(position: Position, partition: TopicPartition) -> bool:
    """Whether just this offset was asked for, and not where the log begins or what a time has."""
    return isinstance(position, AtOffsets) and position.offsets[partition] >= 0


def _time_of(position: Position, partition: TopicPartition) -> int:
    if isinstance(position, AtTime):
        return position.time_ms
    assert isinstance(position, AtTimes)
    return position.times_ms[partition]

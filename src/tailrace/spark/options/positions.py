"""Where a read begins or ends, as it was asked for; `source.starting` makes offsets of it.

Three options each, of which the first that is given counts, as in Spark's Kafka source:

    startingTimestamp             endingTimestamp              1760000000000
    startingOffsetsByTimestamp    endingOffsetsByTimestamp     {"orders":{"0":1760000000000}}
    startingOffsets               endingOffsets                earliest, latest, {"orders":{"0":23,"1":-2}}

A stream has no end to ask for. A batch cannot begin at the end, nor end at the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import OptionError
from tailrace.spark.options.given import Given
from tailrace.spark.options.partition_numbers import NUMBERS_EXAMPLE, named, parse_numbers

LATEST: Final = -1
EARLIEST: Final = -2
"""How the two are written among offsets."""

_ENDINGS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_TIMES_EXAMPLE: Final = '{"orders":{"0":1760000000000}}'


@dataclass(frozen=True)
class Earliest:
    pass


@dataclass(frozen=True)
class Latest:
    pass


@dataclass(frozen=True)
class AtOffsets:
    """An offset, LATEST or EARLIEST, for every partition of the subscription."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTimes:
    """A time for every partition: the first record at or after it."""

    times_ms: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTime:
    """The same time for all of them."""

    time_ms: int


Position = Earliest | Latest | AtOffsets | AtTimes | AtTime
_Side = Literal["starting", "ending"]


def starting_position(given: Given, *, streaming: bool) -> Position:
    position = _position(given, "starting", Latest() if streaming else Earliest())
    if not streaming:
        _refuse_end(given, "startingOffsets", position, Latest(), LATEST, "latest, for a batch would read nothing")
    return position


def ending_position(given: Given, *, streaming: bool) -> Position:
    if streaming:
        for name in _ENDINGS:
            if name in given:
                raise given.refusal(name, "is for batches only: a stream has no end")
        return Latest()
    position = _position(given, "ending", Latest())
    _refuse_end(given, "endingOffsets", position, Earliest(), EARLIEST, "earliest, for a batch would read nothing")
    return position


def check_order(starting: Position, ending: Position) -> None:
    """What can be seen without the log: both name the same partitions, and none begins behind its end."""
    if isinstance(starting, AtTime) and isinstance(ending, AtTime) and starting.time_ms > ending.time_ms:
        raise OptionError(f"startingTimestamp {starting.time_ms} is later than endingTimestamp {ending.time_ms}")
    if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        _check_pairs("Offsets", starting.offsets, ending.offsets)
    if isinstance(starting, AtTimes) and isinstance(ending, AtTimes):
        _check_pairs("OffsetsByTimestamp", starting.times_ms, ending.times_ms)


def _check_pairs(option: str, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    if starts.keys() != ends.keys():
        raise OptionError(
            f"starting{option} and ending{option} name different partitions: "
            f"only one of them has {named(set(starts) ^ set(ends))}"
        )
    for partition, start in sorted(starts.items()):
        if 0 <= ends[partition] < start:
            raise OptionError(
                f"starting{option} of {partition} is {start}, more than its ending{option}, {ends[partition]}"
            )


def _position(given: Given, side: _Side, default: Position) -> Position:
    time_ms = given.whole(f"{side}Timestamp", least=0)
    if time_ms is not None:
        return AtTime(time_ms)
    times = _numbers(given, f"{side}OffsetsByTimestamp", 0, f"JSON with times in ms, such as {_TIMES_EXAMPLE}")
    if times is not None:
        return AtTimes(times)
    name = f"{side}Offsets"
    text = (given.text(name) or "").lower()
    if text in ("earliest", "latest"):
        return Earliest() if text == "earliest" else Latest()
    offsets = _numbers(
        given, name, EARLIEST, f"earliest, latest, or JSON such as {NUMBERS_EXAMPLE} (-2 is earliest, -1 latest)"
    )
    return default if offsets is None else AtOffsets(offsets)


def _numbers(given: Given, name: str, least: int, allowed: str) -> dict[TopicPartition, int] | None:
    text = given.text(name)
    if text is None:
        return None
    try:
        numbers = parse_numbers(text)
    except ValueError as error:
        raise given.refusal(name, f"must be {allowed}: {error}") from None
    for partition, number in numbers.items():
        if number < least:
            raise given.refusal(name, f"must be {allowed}: {partition} has {number}")
    return numbers


def _refuse_end(given: Given, name: str, position: Position, end: Position, number: int, rule: str) -> None:
    if position == end:
        raise given.refusal(name, f"must not be {rule}")
    if isinstance(position, AtOffsets) and number in position.offsets.values():
        partition = next(each for each in sorted(position.offsets) if position.offsets[each] == number)
        raise given.refusal(name, f"must not have {number} ({rule.partition(',')[0]}) for {partition} in a batch")

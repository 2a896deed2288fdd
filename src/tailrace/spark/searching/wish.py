"""What is looked for, and which of it is kept where there is more than the limit. Pure; goes to executors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import numpy as np

from tailrace.spark.errors import OptionError
from tailrace.spark.options.given import Given
from tailrace.spark.searching.found import Found
from tailrace.spark.source.ranges import ALL_TIMES, TimeRange

DEFAULT_LIMIT: Final = 1_000
MOST_FOUND: Final = 1_000_000
MOST_BYTES: Final = 256 << 20
"""Of what all tasks give back together; each gives back one record at least."""
LATEST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: where calendars end."""

Rank = tuple[int, int, int]


class Kept(NamedTuple):
    """Those of the best ranks that the limits allow."""

    found: list[Found]
    """In the order of rank."""
    cut: Rank | None = None
    """From here on some had no room: who has others puts none of them in their place. None: there was room for all."""


@dataclass(frozen=True)
class Wish:
    key: bytes | None = None
    """None: any."""
    at_ms: int | None = None
    """The nearest to this moment are kept; None: the first ones."""
    times: TimeRange = ALL_TIMES
    limit: int = DEFAULT_LIMIT
    newest: bool = False
    """The last ones are kept instead."""
    most_bytes: int = MOST_BYTES

    def distances(self, times_ms: np.ndarray) -> np.ndarray:
        """What is kept has the smallest."""
        if self.at_ms is not None:
            distances: np.ndarray = np.abs(times_ms - self.at_ms)
            return distances
        return -times_ms if self.newest else times_ms

    def rank(self, found: Found) -> Rank:
        """The same for one record, with what decides where they are equal."""
        time_ms = found.timestamp_ms
        if self.at_ms is not None:
            return abs(time_ms - self.at_ms), found.partition, found.offset
        if self.newest:
            return -time_ms, -found.partition, -found.offset
        return time_ms, found.partition, found.offset

    def kept(self, found: Iterable[Found], cut: Rank | None = None) -> Kept:
        """Of what was found, in one go or with what was kept of it before: `cut` is that of all before."""
        best = sorted(found, key=self.rank)[: self.limit]
        left = self.most_bytes
        for place, each in enumerate(best):
            left -= each.size_bytes
            if cut is not None and self.rank(each) >= cut:
                return Kept(best[:place], cut)
            if left < 0 and place:
                return Kept(best[:place], self.rank(each))
        return Kept(best, cut)


def in_order(found: Iterable[Found]) -> tuple[Found, ...]:
    return tuple(sorted(found, key=lambda each: (each.timestamp_ms, each.partition, each.offset)))


def checked_limit(limit: object) -> int:
    if not isinstance(limit, int) or not 1 <= limit <= MOST_FOUND:
        raise OptionError(f"limit is {limit!r}: it must be a whole number from 1 to {MOST_FOUND}")
    return limit


def key_bytes(key: str | bytes | None) -> bytes | None:
    return utf_8("key", key) if isinstance(key, str) else key


def utf_8(name: str, text: str) -> bytes:
    """What comes from a command line may have bytes in it that are no text."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise OptionError(f"{name} is {text!r}, which is no UTF-8") from None


def moment_ms(at: datetime | int | str) -> int:
    """A time, milliseconds since 1970, or ISO 8601; UTC where nothing else is said."""
    if isinstance(at, int):
        found = at
    else:
        try:
            moment = datetime.fromisoformat(at) if isinstance(at, str) else at
            known = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            found = (known - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        except (ValueError, OverflowError, TypeError, AttributeError):  # whatever was given for it
            raise OptionError(
                f"at is {at!r}: it must be a datetime, milliseconds since 1970, or a text like 2026-01-31T12:00:00Z"
            ) from None
    if not 0 <= found <= LATEST_MS:
        raise OptionError(f"at is {at!r}: it must be from 1970 to 9999")
    return found


def span_ms(name: str, span: timedelta | int | str) -> int:
    """Milliseconds, or a text such as 5s."""
    given = span // timedelta(milliseconds=1) if isinstance(span, timedelta) else span
    found = Given({name: given}).duration_ms(name)
    if found is None or found > LATEST_MS:
        raise OptionError(f"{name} is {span!r}: it must be a span of time such as 5s")
    return found

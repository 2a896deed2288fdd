"""Which segments of a log have had their time: a decision over values, without files and without a clock.

Three rules, one after the other, each from the oldest segment on that the rule before left, up to the first it keeps:

    log start   the whole segment is below the log start (the next base ≤ log start); under every `cleanup.policy`
    size        without it the log still has `retention.bytes`; negative: off
    time        now − age timestamp > `retention.ms`; −1: off

A segment's age timestamp is the largest timestamp of its records, else the time its file was last written. One in the
future keeps the segment, and every later one, until the clock has caught up: that is worth a warning.

No rule takes a segment that reaches beyond the high watermark, nor a last segment that is empty. One that is last and
not empty may go with all the others: then a fresh one must be rolled before.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from tailrace.config.log import LogConfig


class Reason(Enum):
    """The rule that takes a segment, in the order in which they are asked."""

    LOG_START = "log start"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class SegmentFacts(NamedTuple):
    """`end_offset` is the base of the next segment, or the log end for the last one."""

    base_offset: int
    end_offset: int
    size_bytes: int
    age_timestamp: int
    is_last: bool = False


class LogFacts(NamedTuple):
    log_start: int
    high_watermark: int
    size_bytes: int


class Deletion(NamedTuple):
    """A segment that goes, and why."""

    base_offset: int
    end_offset: int
    size_bytes: int
    reason: Reason


class FutureTimestamp(NamedTuple):
    """A warning: the segment's age timestamp lies ahead of the clock and keeps it from being deleted."""

    base_offset: int
    timestamp: int


class Decision(NamedTuple):
    deletions: tuple[Deletion, ...]
    """Oldest first, without a gap."""
    rolls_first: bool = False
    """Every segment goes: a fresh active one must be there before."""
    warnings: tuple[FutureTimestamp, ...] = ()


def decide(segments: Iterable[SegmentFacts], log: LogFacts, config: LogConfig, now_ms: int) -> Decision:
    """`segments` are all of the log, oldest first; no more of them are asked for than go, and one."""
    rules = _rules(config)
    rule = 0
    left_bytes = log.size_bytes
    deletions: list[Deletion] = []
    for segment in segments:
        is_empty_last = segment.is_last and segment.size_bytes == 0
        if is_empty_last or segment.end_offset > log.high_watermark:
            return Decision(tuple(deletions))
        # A rule that has kept one segment is not asked again: it would delete behind what it kept.
        while rule < len(rules) and not _takes(rules[rule], segment, log.log_start, left_bytes, config, now_ms):
            rule += 1
        if rule == len(rules):
            return Decision(tuple(deletions), warnings=_warnings(segment, rules, now_ms))
        deletions.append(Deletion(segment.base_offset, segment.end_offset, segment.size_bytes, rules[rule]))
        left_bytes -= segment.size_bytes
    return Decision(tuple(deletions), rolls_first=bool(deletions))


def _rules(config: LogConfig) -> tuple[Reason, ...]:
    rules = [Reason.LOG_START]
    if config.deletes and config.retention_bytes >= 0:
        rules.append(Reason.SIZE)
    if config.deletes and config.retention_ms >= 0:
        rules.append(Reason.TIME)
    return tuple(rules)


def _takes(
    rule: Reason, segment: SegmentFacts, log_start: int, left_bytes: int, config: LogConfig, now_ms: int
) -> bool:
    if rule is Reason.LOG_START:
        return not segment.is_last and segment.end_offset <= log_start
    if rule is Reason.SIZE:
        return left_bytes - segment.size_bytes >= config.retention_bytes
    return now_ms - segment.age_timestamp > config.retention_ms


def _warnings(kept: SegmentFacts, rules: tuple[Reason, ...], now_ms: int) -> tuple[FutureTimestamp, ...]:
    if Reason.TIME in rules and kept.age_timestamp > now_ms:
        return (FutureTimestamp(kept.base_offset, kept.age_timestamp),)
    return ()

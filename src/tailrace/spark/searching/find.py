"""`find`: where a record is, what a key was when, what happened around a moment.

from tailrace.spark import find

find("orders", key="customer-7", brokers="localhost:9092")          # every version, the first one first
find("orders", at="2026-01-31T12:00:00Z", path="/data/kafka")       # what was written around then
find("orders", where="get_json_object(text, '$.cents') > 5000", path="/data/kafka")
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.client.offsets import READ_UNCOMMITTED
from tailrace.metadata.topic_names import is_legal_topic_name
from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import OptionError
from tailrace.spark.options.one_topic import ISOLATION, options_for_one_topic
from tailrace.spark.options.source import SourceOptions, source_options
from tailrace.spark.searching.found import Found, Matches
from tailrace.spark.searching.states import with_states
from tailrace.spark.searching.task import search_piece
from tailrace.spark.searching.wish import (
    DEFAULT_LIMIT,
    Wish,
    checked_limit,
    in_order,
    key_bytes,
    moment_ms,
    span_ms,
    utf_8,
)
from tailrace.spark.source.batch_reader import until
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.origin import OpenOrigin, Origin
from tailrace.spark.source.planning import pieces, task_count
from tailrace.spark.source.ranges import ALL_TIMES, OffsetRange, TimeRange
from tailrace.spark.source.starting import checked_ranges
from tailrace.spark.tables.tasks.jobs import Failure, failure_in, run_tasks, watched
from tailrace.spark.tables.tasks.reading import READ, Tally, Told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_AROUND: Final = "5s"
DEFAULT_DISORDER: Final = "1h"
LEAST_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Plan:
    """What is searched."""

    options: SourceOptions
    given: Mapping[str, str]
    """The same as Spark takes them."""
    ids: Mapping[TopicPartition, str | None]
    ranges: Sequence[OffsetRange]

    @property
    def offsets(self) -> int:
        return sum(each.size for each in self.ranges)


def find(
    topic: str,
    *,
    key: str | bytes | None = None,
    at: datetime | int | str | None = None,
    around: timedelta | int | str = DEFAULT_AROUND,
    where: str | None = None,
    limit: int = DEFAULT_LIMIT,
    newest: bool = False,
    aborted: bool = False,
    partitions: Iterable[int] | None = None,
    disorder: timedelta | int | str = DEFAULT_DISORDER,
    brokers: str | None = None,
    path: str | None = None,
    session: SparkSession | None = None,
    options: Mapping[str, object] | None = None,
    told: Told | None = None,
) -> Matches:
    """Records of a topic that meet all that is asked: `key`, `at` and `where`, one of them at least.

    `at` gives what lies within `around` of a moment. It is found by the time index, and reading stops behind it: by
    `disorder`, which is how much older a record may be than one before it. Where more than `limit` are found, the first
    ones are given, with `newest` the last ones, with `at` the nearest. `aborted` adds what transactions that were
    aborted wrote, and what open ones have written so far; each says what it is.
    """
    wish = wish_of(key, at, around, where, limit, newest)
    given = given_options(topic, brokers, path, partitions, dict(options or {}), wants_aborted=aborted)
    began_s = time.monotonic()
    plan = planned(given, wish, span_ms("disorder", disorder))
    if session is None:
        from tailrace.spark.spark_session import session as default_session

        session = default_session()
    if where is None:
        found, total = _by_tasks(session, plan, wish, told)
    else:
        found, total = _by_predicate(session, plan, wish, where, told)
    if plan.options.isolation == READ_UNCOMMITTED:
        found = with_states(session, plan.options, plan.ids, found)
    return Matches(in_order(found), total, plan.offsets, time.monotonic() - began_s)


def wish_of(
    key: str | bytes | None,
    at: datetime | int | str | None,
    around: timedelta | int | str,
    where: str | None,
    limit: int,
    newest: bool,
) -> Wish:
    if key is None and at is None and where is None:
        raise OptionError("nothing is looked for: give a key, a moment (at) or a condition (where)")
    if where is not None and not where.strip():
        raise OptionError("where is empty: it must be a condition such as offset < 100")
    if where is not None:
        utf_8("where", where)
    if at is None:
        return Wish(key_bytes(key), limit=checked_limit(limit), newest=newest)
    if newest:
        raise OptionError("newest does not go with at: the nearest to that moment are given")
    at_ms, span = moment_ms(at), span_ms("around", around)
    times = TimeRange(max(at_ms - span, 0), at_ms + span)
    return Wish(key_bytes(key), at_ms, times, checked_limit(limit))


def given_options(
    topic: str,
    brokers: str | None,
    path: str | None,
    partitions: Iterable[int] | None,
    options: Mapping[str, object],
    *,
    wants_aborted: bool,
) -> dict[str, str]:
    """As Spark takes them."""
    if not is_legal_topic_name(topic):
        raise OptionError(f"topic {topic[:60]!r} is no name of a topic: a search is of one")
    if wants_aborted and ISOLATION in map(str.lower, options):
        raise OptionError(f"aborted says which records are wanted: leave {ISOLATION} out")
    taken = options_for_one_topic(
        options,
        brokers=brokers,
        path=path,
        isolation="read_uncommitted" if wants_aborted else "read_committed",
        refusal="a search: it has arguments of its own for that",
    )
    numbers = None if partitions is None else sorted(set(partitions))
    chosen = {"subscribe": topic} if numbers is None else {"assign": json.dumps({topic: numbers})}
    return {**taken, **chosen, "includeHeaders": "true"}


def planned(given: Mapping[str, str], wish: Wish, disorder_ms: int) -> Plan:
    options = source_options(given, streaming=False)
    with OpenOrigin(options) as origin:
        ids = origin.partitions(options.subscription)
        ranges = checked_ranges(options, origin, ids, LossPolicy(options.fail_on_data_loss))
        if wish.times != ALL_TIMES:
            ranges = during(ranges, wish.times, disorder_ms, origin)
    return Plan(options, given, ids, [each for each in ranges if each.size])


def during(ranges: list[OffsetRange], times: TimeRange, disorder_ms: int, origin: Origin) -> list[OffsetRange]:
    """Without what the time index knows to be before, and what is behind them by more than the disorder."""
    starts = origin.at_times({each.partition: times.first_ms for each in ranges})
    begun = [
        each._replace(start=max(each.start, start))
        for each in ranges
        if (start := starts[each.partition]) is not None and start < each.end
    ]
    return until(begun, times.last_ms + disorder_ms, origin)


def _by_tasks(spark: SparkSession, plan: Plan, wish: Wish, told: Told | None) -> tuple[list[Found], int]:
    cut = pieces(plan.ranges, min_partitions=task_count(plan.offsets, spark.sparkContext.defaultParallelism))
    share = replace(wish, most_bytes=max(wish.most_bytes // max(len(cut), 1), LEAST_BYTES))
    results = run_tasks(spark, READ, partial(search_piece, plan.options, share), cut, told, plan.offsets)
    error = failure_in(results)
    if error is not None:
        raise error
    done = [each for each in results if not isinstance(each, Failure)]
    first_cut = min((each.kept.cut for each in done if each.kept.cut is not None), default=None)
    kept = wish.kept((found for each in done for found in each.kept.found), first_cut)
    return kept.found, sum(each.total for each in done)


def _by_predicate(
    spark: SparkSession, plan: Plan, wish: Wish, where: str, told: Told | None
) -> tuple[list[Found], int]:
    from tailrace.spark.frames import read
    from tailrace.spark.searching.predicate import best, matching

    for name, value in plan.given.items():
        utf_8(name, value)  # Spark takes no other
    tasks = task_count(plan.offsets, spark.sparkContext.defaultParallelism)
    planned_already = ("subscribe", "assign", "starting", "ending", "minpartitions", "maxrecordsperpartition")
    exact = {name: value for name, value in plan.given.items() if not name.lower().startswith(planned_already)}
    frame = read(
        session=spark,
        options={**exact, **edges(plan), "minPartitions": tasks, "filterPushdown": "true"},
    )
    rows = matching(frame, wish, where)  # also where there is nothing to read: a wrong condition is told
    if not plan.ranges:
        return [], 0
    with watched(spark.sparkContext, Tally(READ, 0, max(tasks, len(plan.ranges)), plan.offsets), told):
        return best(rows, wish)


def edges(plan: Plan) -> dict[str, str]:
    """The partitions and ranges of the plan, as the source takes them. A batch may not begin at the end of a partition:
    those of which nothing is read are not named, but where there is no other."""
    numbers: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for topic, partition in [each.partition for each in plan.ranges] or plan.ids:
        numbers.setdefault(topic, []).append(partition)
    for each in plan.ranges:
        starts.setdefault(each.partition.topic, {})[str(each.partition.partition)] = each.start
        ends.setdefault(each.partition.topic, {})[str(each.partition.partition)] = each.end
    offsets = {"startingOffsets": json.dumps(starts), "endingOffsets": json.dumps(ends)} if plan.ranges else {}
    return {"assign": json.dumps(numbers), **offsets}

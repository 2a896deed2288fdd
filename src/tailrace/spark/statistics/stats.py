"""What is in a topic, in a call.

from tailrace.spark import stats

found = stats("orders", brokers="localhost:9092")
print(found.keys.distinct, found.compaction.whole.gained_bytes)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.spark.errors import OptionError
from tailrace.spark.statistics.assembling import assembled
from tailrace.spark.statistics.job import COUNT, SAMPLE, run_stats
from tailrace.spark.statistics.plan import options_of, planned
from tailrace.spark.statistics.topic_stats import TopicStats
from tailrace.spark.tables.tasks.reading import READ, Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["StatsProgress", "TopicStats", "stats"]

DEFAULT_TOP: Final = 10
MOST_TOP: Final = 10_000
"""Every task names so many keys to the driver, which may be of 256 bytes each."""
DEFAULT_SAMPLE_BYTES: Final = 64 << 20

_DOING: Final = {READ: "reading", COUNT: "counting", SAMPLE: "sampling"}


@dataclass(frozen=True)
class StatsProgress:
    """Told while statistics are made, from another thread. Those who show it must not raise."""

    doing: str
    """reading, counting or sampling."""
    tasks_done: int
    tasks: int


Told = Callable[[StatsProgress], None]


def stats(
    topic: str | None = None,
    *,
    brokers: str | None = None,
    path: str | None = None,
    session: SparkSession | None = None,
    top: int = DEFAULT_TOP,
    sample: int = DEFAULT_SAMPLE_BYTES,
    told: Told | None = None,
    options: Mapping[str, object] | None = None,
) -> TopicStats:
    """Statistics of a topic, from `brokers` or straight from the log directory at `path`.

    Without a `topic`, `path` has to hold a single one, as the folder of a partition does. `top` is how many hot keys
    are named; `sample` about how many bytes of batches are packed again to measure codecs and compaction. `options` are
    those of the source, as startingOffsets or startingTimestamp to look at a part only; what is not said is read
    committed, from the earliest offset to the end.
    """
    began_s = time.monotonic()
    if not 0 <= top <= MOST_TOP:
        raise OptionError(f"top is {top}: it must be from 0 to {MOST_TOP}")
    if sample < 0:
        raise OptionError(f"sample is {sample}: it must be a number of bytes, 0 or more")
    chosen, source = options_of(topic, brokers, path, options or {})
    if session is None:
        from tailrace.spark.spark_session import session as default_session

        session = default_session()
    plan = planned(chosen, source, session.sparkContext.defaultParallelism, sample)
    found = run_stats(session, plan, top, None if told is None else partial(_tell, told))
    return assembled(plan, found, time.monotonic() - began_s)


def _tell(told: Told, tally: Tally) -> None:
    told(StatsProgress(_DOING[tally.step], tally.tasks_done, tally.tasks))

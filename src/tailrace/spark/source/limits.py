"""How much of what has come the next micro-batch takes.

`max_offsets` is shared among partitions by how much each has waiting, and none that has something waiting is left out:
so it may be passed by one offset for each partition. With `min_offsets` a batch waits until that many have come, but
not longer than `max_delay_ms`; the first batch of a run does not wait.

Offsets are counted, as in Spark's Kafka source: compacted records and transaction markers count too.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.model.ids import TopicPartition


def admit(
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    *,
    max_offsets: int | None = None,
    min_offsets: int | None = None,
    delayed_ms: int | None = None,
    max_delay_ms: int = 0,
) -> dict[TopicPartition, int] | None:
    """Where the next batch ends in each partition of `latest`. None: it has to wait.

    `start` has all partitions of `latest`. `delayed_ms` is the time since the last batch; None, when there was none.
    A partition that ends before its start (its log was cut) ends there.
    """
    waiting = {each: end - start[each] for each, end in latest.items() if end > start[each]}
    total = sum(waiting.values())
    is_due = delayed_ms is None or delayed_ms >= max_delay_ms
    if min_offsets is not None and total < min_offsets and not is_due:
        return None
    if max_offsets is None or total <= max_offsets:
        return dict(latest)
    return {
        each: start[each] + max(max_offsets * waiting[each] // total, 1) if each in waiting else end
        for each, end in latest.items()
    }


def within(latest: Mapping[TopicPartition, int], target: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Of a query that ends at `target`: nothing behind it, and no partition that came after it was set."""
    return {each: min(end, target[each]) for each, end in latest.items() if each in target}

"""Offsets that no batch has, between those that were read: normal in a topic that is compacted, otherwise lost.

Transaction markers are batches, and leave no gap. Where the topic's settings cannot be read, gaps are taken as normal:
a reader who may not see them is no reason to fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

from tailrace.client.cluster import Cluster
from tailrace.client.config_admin import ConfigAdmin, Resource
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.spark.source.loss import LossPolicy

CLEANUP_POLICY: Final = "cleanup.policy"
COMPACT: Final = "compact"


class Gaps:
    def __init__(self, cluster: Cluster, partition: TopicPartition, loss: LossPolicy) -> None:
        self._cluster = cluster
        self._partition = partition
        self._loss = loss

    def judge(self, found: Iterable[tuple[int, int]]) -> None:
        """Stretches [start, end) without a batch."""
        for start, end in found:
            if not self._is_compacted:
                self._loss.lost(self._partition, start, end, "the log has no batches there, and is not compacted")

    @cached_property
    def _is_compacted(self) -> bool:
        try:
            entries = ConfigAdmin(self._cluster).describe(Resource.topic(self._partition.topic), [CLEANUP_POLICY])
        except TailraceError:
            return True
        policies = [entry.value for entry in entries if entry.name == CLEANUP_POLICY]
        return not policies or policies[0] is None or COMPACT in policies[0].split(",")

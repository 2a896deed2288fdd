"""A topic in files, a table of it, and the model: for tests of whole tables without Spark and without a broker."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.logs.builders import TOPIC_ID, real_log
from support.spark.local_rdds import LocalSpark
from support.tables.model import Record, TableModel
from support.tables.readers import dead_letters_at, rows_at
from support.tables.records import decode
from tailrace.config.log import LogConfig
from tailrace.env.real import RealFiles
from tailrace.model.ids import TopicId
from tailrace.record.builder import BatchBuilder
from tailrace.spark.tables.table import TableReport, TableSettings, run_table, table_settings
from tailrace.storage.partition_metadata import PartitionMetadata

TOPIC = "orders"
PER_BATCH = 50
CONFIG = LogConfig(message_timestamp_after_max_ms=1 << 62)
COMBINATIONS = [
    ("parquet", "append"),
    ("delta", "append"),
    ("iceberg", "append"),
    ("delta", "upsert"),
    ("iceberg", "upsert"),
]
BUCKETS = 4


class TableRig:
    def __init__(self, root: Path, kind: str, mode: str) -> None:
        self.logs = root / "logs"
        self.place = root / "lake" / TOPIC
        self.kind, self.mode = kind, mode
        self.spark = LocalSpark()
        self.model = TableModel(mode, decode, TOPIC, BUCKETS)
        self.topic_id: TopicId = TOPIC_ID

    def come(self, records: Iterable[Record]) -> None:
        """Into the topic, and into the model."""
        by_partition: dict[int, list[Record]] = {}
        for each in records:
            by_partition.setdefault(each.partition, []).append(each)
        for partition, found in by_partition.items():
            self._write(partition, found)
            self.model.add(found)

    def _write(self, partition: int, records: list[Record]) -> None:
        folder = self.logs / f"{TOPIC}-{partition}"
        folder.mkdir(parents=True, exist_ok=True)
        PartitionMetadata(RealFiles(), str(folder)).write(self.topic_id)
        log = real_log(folder, CONFIG, topic_id=self.topic_id)
        for first in range(0, len(records), PER_BATCH):
            builder = BatchBuilder()
            for each in records[first : first + PER_BATCH]:
                builder.append(each.timestamp_ms, each.key, each.value, each.headers)
            (result,) = log.append_as_leader([builder.build()], 0)
            assert result.error is None
        log.close()

    def settings(self, **more: Any) -> TableSettings:
        given: dict[str, Any] = {
            "to": str(self.place),
            "path": str(self.logs),
            "format": self.kind,
            "mode": self.mode,
            "value": "json",
            "buckets": BUCKETS if self.mode == "upsert" else None,
            **more,
        }
        return table_settings(TOPIC, **given)

    def run(self, **more: Any) -> TableReport:
        spark: Any = self.spark
        report = run_table(self.settings(**more), session=spark)
        assert isinstance(report, TableReport)
        return report

    def check(self) -> None:
        differences = self.model.differences(rows_at(self.kind, self.place), dead_letters_at(self.kind, self.place))
        assert not differences, "\n".join(differences)

"""The rules of the three indexes of a segment, under one name."""

from __future__ import annotations

from tailrace.spark.auditing.task.offset_index import OffsetIndexRule
from tailrace.spark.auditing.task.time_index import TimeIndexRule
from tailrace.spark.auditing.task.transaction_index import TransactionIndexRule

__all__ = ["OffsetIndexRule", "TimeIndexRule", "TransactionIndexRule"]

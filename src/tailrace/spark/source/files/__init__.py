"""A log's files as a source: segments and indexes of a log directory, live or copied, ours or Kafka's. Only read."""

from __future__ import annotations

from tailrace.spark.source.files.origin import DirectoryOrigin
from tailrace.spark.source.files.reader import read_files

__all__ = ["DirectoryOrigin", "read_files"]

"""What cannot be read, what is not there at all, and formats of the future."""

from __future__ import annotations

import os
import struct

from support.audit.injected_faults.catalog import Case, Expected, fault
from tailrace.spark.auditing.rules import TRUNCATED, UNKNOWN_FORMAT, UNREADABLE
from tailrace.storage.names import INDEX_SUFFIX, LEADER_EPOCH_CHECKPOINT, LOG_SUFFIX

MAGIC_AT = 16


@fault()
def segment_that_the_disk_refuses(case: Case) -> Expected:
    return _refused(case, LOG_SUFFIX)


@fault()
def index_that_the_disk_refuses(case: Case) -> Expected:
    return _refused(case, INDEX_SUFFIX)


@fault()
def partition_without_any_segment(case: Case) -> Expected:
    for file in case.partition.folder.iterdir():
        file.unlink()
    return case.expects(TRUNCATED, case.partition.folder, 0)


@fault()
def batch_of_a_future_magic(case: Case) -> Expected:
    """Not a known one with a damaged magic: the CRC is none of those bytes."""
    batch = case.batch(1, 2)
    expected = case.at(UNKNOWN_FORMAT, 1, 2)
    content = bytearray(case.log(1).read_bytes())
    content[batch.position + MAGIC_AT] = 9
    content[batch.position + batch.size - 3] ^= 0xFF
    case.log(1).write_bytes(content)
    return expected


@fault()
def snapshot_of_a_future_version(case: Case) -> Expected:
    file = case.partition.folder / f"{50:020d}.snapshot"
    content = file.read_bytes()
    file.write_bytes(struct.pack(">h", 7) + content[2:] + b"and more")
    return case.expects(UNKNOWN_FORMAT, file, 50)


@fault()
def epochs_of_a_future_version(case: Case) -> Expected:
    file = case.partition.folder / LEADER_EPOCH_CHECKPOINT
    file.write_text("4\nepochs as JSON: []\n")
    return case.expects(UNKNOWN_FORMAT, file)


@fault()
def high_watermarks_of_a_future_version(case: Case) -> Expected:
    file = case.directory / "replication-offset-checkpoint"
    file.write_text("3\n" + file.read_text())
    return case.expects(UNKNOWN_FORMAT, file)


def _refused(case: Case, suffix: str) -> Expected:
    """A pipe: no file that anybody could read, whatever rights they have."""
    file = case.partition.file(1, suffix)
    file.unlink()
    os.mkfifo(file)
    return case.expects(UNREADABLE, file, case.partition.bases[1] if suffix == LOG_SUFFIX else None)

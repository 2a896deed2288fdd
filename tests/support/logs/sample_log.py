"""A small log with a bit of everything on a real disk, for tests of the tools that look at logs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tailrace.config.log import LogConfig
from tailrace.env.real import real_env
from tailrace.model.ids import TopicId
from tailrace.record.builder import batch_of
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.storage.loader import LoadOptions, load
from tailrace.storage.origin import Origin
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

CONFIG = LogConfig(segment_bytes=900, segment_index_bytes=120, index_interval_bytes=100)
TOPIC_ID = TopicId(bytes(range(1, 17)))
START_MS = 1_700_000_000_000
COMMITTING, ABORTING = 11, 12
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "kafka-4.3.1"
GOLDEN_PARTITIONS = sorted(path.parent for path in GOLDEN.glob("*/*-0/partition.metadata"))


def open_sample(directory: Path) -> UnifiedLog:
    return load(real_env(1), str(directory), CONFIG, WarmSet(8), LoadOptions(topic_id=TOPIC_ID))


def write_sample(directory: Path) -> UnifiedLog:
    """Three segments and more: plain and compressed batches, two leader epochs, one transaction of each outcome."""
    log = open_sample(directory)
    now = START_MS
    for number in range(8):
        records = [(now + n, b"key-%d" % n, b"value %d of %d" % (n, number)) for n in range(3)]
        log.append_as_leader([batch_of(records, codec=number % 5)], number // 5)
        now += 1000
    for producer_id in (COMMITTING, ABORTING):
        records = [(now, b"\xff\x00key", b'quoted "text"\x1b[31m', [("head", b"\xfe"), ("none", None)])]
        fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        log.append_as_leader([batch_of(records, **fields)], 1)
        now += 1000
    for producer_id, outcome in ((COMMITTING, COMMIT), (ABORTING, ABORT)):
        marker = end_txn_marker(outcome, producer_id=producer_id, producer_epoch=0, coordinator_epoch=3, timestamp=now)
        log.append_as_leader([marker], 1, Origin.COORDINATOR)
        now += 1000
    for _ in range(4):
        log.append_as_leader([batch_of([(now, None, b"x" * 150)])], 1)
        now += 1000
    return log


@cache
def _closed_sample() -> dict[str, bytes]:
    with TemporaryDirectory() as parent:
        write_sample(Path(parent) / "t-0").close()
        return {path.name: path.read_bytes() for path in (Path(parent) / "t-0").iterdir()}


def copy_sample(directory: Path) -> Path:
    """The sample after a clean close, without the fsyncs of writing it once more."""
    directory.mkdir()
    for name, content in _closed_sample().items():
        (directory / name).write_bytes(content)
    return directory

"""A broker's data directory on a real disk, with logs that have something to compact, for tests of the tools."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tailrace.config.log import LogConfig
from tailrace.env.real import real_env
from tailrace.record.builder import batch_of
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import batches
from tailrace.storage.loader import load
from tailrace.storage.origin import Origin
from tailrace.storage.warm import WarmSet

CLUSTER, NODE, DIRECTORY = "uViM5VGiQUWqVVgvr1gYxQ", 1, "tuacqoTjB3mTQZiJ6MPutw"
CONFIG = LogConfig(segment_bytes=3000, segment_index_bytes=8000, index_interval_bytes=500)
START_MS = 1_700_000_000_000

Offsets = Mapping[str, int]


class DataDirectory:
    """`orders-0` and the like name partitions; what is checkpointed of them is what was written, unless changed."""

    def __init__(self, path: Path, *, node: int = NODE, clean: bool = True) -> None:
        self.path = path
        self.ends: dict[str, int] = {}
        path.mkdir()
        meta = f"node.id={node}\ndirectory.id={DIRECTORY}\nversion=1\ncluster.id={CLUSTER}\n"
        (path / "meta.properties").write_text(meta)
        if clean:
            (path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":105}')

    def __str__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def add(
        self, name: str, count: int = 60, keys: int = 5, *, keyless: bool = False, config: LogConfig = CONFIG
    ) -> Path:
        """A partition with `count` records, in batches of one, of so many keys in turn."""
        files, self.ends[name] = _closed_log(count, keys, keyless, config)
        path = self.path / name
        path.mkdir()
        for file, content in files.items():
            (path / file).write_bytes(content)
        self.checkpoint("recovery-point-offset-checkpoint", self.ends)
        self.checkpoint("replication-offset-checkpoint", self.ends)
        return path

    def checkpoint(self, file: str, offsets: Offsets) -> None:
        lines = [" ".join((*name.rsplit("-", 1), str(offset))) for name, offset in offsets.items()]
        (self.path / file).write_text("\n".join(("0", str(len(lines)), *lines, "")))

    def cleaned(self, **offsets: int) -> None:
        self.checkpoint("cleaner-offset-checkpoint", {name.replace("_0", "-0"): at for name, at in offsets.items()})

    def records(self, name: str) -> list[Record]:
        """Of all segments, in order."""
        found = []
        for log in sorted((self.path / name).glob("*.log")):
            data = log.read_bytes()
            for batch in batches(data):
                found += records_of(data, batch)
        return found

    def bases(self, name: str) -> list[int]:
        return [int(log.stem) for log in sorted((self.path / name).glob("*.log"))]


@cache
def _closed_log(count: int, keys: int, keyless: bool, config: LogConfig) -> tuple[dict[str, bytes], int]:
    """Its files after a clean close, and its log end; written once for all, because of the fsyncs."""
    with TemporaryDirectory() as parent:
        log = load(real_env(1), f"{parent}/t-0", config, WarmSet(8))
        for number in range(count):
            key = None if keyless and number % 2 else b"key-%d" % (number % keys)
            batch = batch_of([(START_MS + number, key, b"value %d " % number + b"." * 80)])
            log.append_as_leader([batch], 0, Origin.COORDINATOR)
        log.close()
        return {path.name: path.read_bytes() for path in Path(parent, "t-0").iterdir()}, log.log_end_offset


def contents(directory: Path) -> dict[str, bytes]:
    """Of every file below it."""
    return {
        os.path.relpath(path, directory): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def last_values(records: Sequence[Record]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records}

"""What Kafka's DumpLogSegments says of filled topics at some moment, and how far they can be cleaned."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from support.kafka.dump_view import Fields
from support.kafka.filled_topics import COMPACTED, TOPICS, now_ms
from support.kafka.tools import FileDump, dump_log_segments


class Copy(NamedTuple):
    """The topics' logs and transaction indexes, to be dumped later, and what the cleaner's checkpoint file said."""

    folder: Path
    cleaner_points: Mapping[str, int]


class Stage(NamedTuple):
    """The dumps of such a copy, by topic and in order of offsets."""

    logs: Mapping[str, Sequence[FileDump]]
    aborted: Mapping[str, Sequence[Fields]]
    cleaner_points: Mapping[str, int]

    def batches(self, topic: str) -> list[Fields]:
        return [batch for dump in self.logs[topic] for batch in dump.batches]

    def bases(self, topic: str) -> list[int]:
        return [int(dump.path.stem) for dump in self.logs[topic]]

    def end(self, topic: str) -> int:
        return int(self.batches(topic)[-1]["lastOffset"]) + 1


def copy_of(log_dir: Path, folder: Path) -> Copy:
    for topic in COMPACTED:
        (folder / f"{topic}-0").mkdir(parents=True)
        for file in (log_dir / f"{topic}-0").iterdir():
            if file.suffix in (".log", ".txnindex"):
                shutil.copy(file, folder / f"{topic}-0")
    return Copy(folder, cleaner_points(log_dir))


def cleaner_points(log_dir: Path) -> dict[str, int]:
    path = log_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    points = {topic: int(offset) for topic, _, offset in map(str.split, lines)}
    return {topic: points[topic] for topic in COMPACTED if topic in points}


def dumped(copies: Sequence[Copy]) -> list[Stage]:
    """One run of the tool for all of them."""
    files = [file for copy in copies for file in sorted(copy.folder.glob("*/*"))]
    dumps = dump_log_segments(files, allow_gaps=True)

    def of(copy: Copy, topic: str, suffix: str) -> list[FileDump]:
        return [dumps[file] for file in files if file.parent == copy.folder / f"{topic}-0" and file.suffix == suffix]

    return [
        Stage(
            {topic: of(copy, topic, ".log") for topic in COMPACTED},
            {topic: [entry for each in of(copy, topic, ".txnindex") for entry in each.entries] for topic in COMPACTED},
            copy.cleaner_points,
        )
        for copy in copies
    ]


def ends_of_cleaning(written: Stage) -> dict[str, int]:
    """Up to where each topic can be cleaned by its settings."""
    lags = {topic: int(settings.get("min.compaction.lag.ms", 0)) for topic, (settings, _) in TOPICS.items()}
    return {topic: end_of_cleaning(written, topic, lag_ms) for topic, lag_ms in lags.items()}


def end_of_cleaning(written: Stage, topic: str, lag_ms: int = 0) -> int:
    """The base of the active segment, of the one with an open transaction or of the first that is too young."""
    bases = written.bases(topic)
    first_open = min(open_transactions(written.batches(topic)), default=bases[-1])
    young_ms = now_ms() - lag_ms
    too_young = [
        base
        for base, dump in zip(bases, written.logs[topic], strict=True)
        if lag_ms and any(batch["maxTimestamp"] > young_ms for batch in dump.batches)
    ]
    return min(max(base for base in bases if base <= first_open), *too_young, bases[-1])


def open_transactions(batches: Iterable[Fields]) -> list[int]:
    """Their first offsets."""
    begun: dict[int, int] = {}
    for batch in batches:
        if batch["isControl"]:
            begun.pop(batch["producerId"], None)
        elif batch["isTransactional"]:
            begun.setdefault(batch["producerId"], batch["baseOffset"])
    return list(begun.values())

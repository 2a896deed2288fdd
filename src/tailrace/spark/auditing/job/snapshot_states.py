"""Rule: a producer snapshot says of a producer what the log says of it at the same offset.

A snapshot may know producers of which the log has nothing any more, and may have forgotten those that wrote nothing
for long: only what both tell is compared. A transaction that is open is never forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tailrace.env import Files
from tailrace.model.errors import CorruptSnapshotError
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.job.snapshot_file import Snapshot, read_snapshot
from tailrace.spark.auditing.rules import SNAPSHOT_STATE
from tailrace.storage import names


@dataclass(frozen=True)
class LoggedProducer:
    """What the batches of one producer below an offset come to."""

    epoch: int
    """Of its last batch or marker."""
    last_sequence: int = -1
    """Of its last batch of records; −1 without one, or where a marker of a newer epoch came behind it."""
    last_offset: int = -1
    """Last offset of that batch."""
    coordinator_epoch: int = -1
    """Of its last marker; −1 without one."""
    open_from: int | None = None
    """The first offset of its open transaction; None without one."""


def check_snapshot(files: Files, folder: Folder, offset: int, producers: Mapping[int, LoggedProducer]) -> list[Finding]:
    """Of the snapshot at `offset`. `producers` are those whose state there the log is a good witness of.

    One that is gone or cannot be read says nothing: `folder_rules` tells that.
    """
    if not producers:
        return []
    name = names.snapshot_name(offset)
    path = names.join(folder.path, name)
    try:
        snapshot = read_snapshot(files, path)
    except (CorruptSnapshotError, OSError):
        return []
    differing = [] if snapshot is None else _differing(snapshot, producers)
    if not differing:
        return []
    producer_id, words = differing[0]
    more = "" if len(differing) == 1 else f"; and {len(differing) - 1} more producers differ"
    logged = producers[producer_id]
    about = logged.last_offset if logged.last_offset >= 0 else logged.open_from
    return [Finding(path, str(folder.partition), about, SNAPSHOT_STATE, f"producer {producer_id}: {words}{more}")]


def _differing(snapshot: Snapshot, producers: Mapping[int, LoggedProducer]) -> list[tuple[int, str]]:
    """Producers of which log and snapshot do not say the same, by id, and what they say."""
    ids = np.fromiter(producers, np.int64, len(producers))
    ids.sort()
    known = snapshot[np.isin(snapshot["producer_id"], ids)]
    known = known[np.argsort(known["producer_id"])]
    logged = [producers[producer_id] for producer_id in known["producer_id"].tolist()]
    expected = {
        "epoch": [one.epoch for one in logged],
        "last_sequence": [one.last_sequence for one in logged],
        "last_offset": [one.last_offset for one in logged],
        "open_from": [-1 if one.open_from is None else one.open_from for one in logged],
        "coordinator_epoch": [one.coordinator_epoch for one in logged],
    }
    found: dict[int, str] = {}
    for field, values in expected.items():
        said, should_be = known[field].astype(np.int64), np.array(values, np.int64)
        differs = said != should_be
        if field == "coordinator_epoch":
            differs &= said != -1  # forgotten with all else of a producer that came back after long
        if field in ("last_sequence", "last_offset"):
            differs &= known["last_offset"] >= 0  # forgotten, too: brokers may be told to do so sooner than in a day
        for place in np.flatnonzero(differs).tolist():
            words = f"{_NAMES[field]} {_shown(int(said[place]))}, but by the log it is {_shown(int(should_be[place]))}"
            found.setdefault(int(known["producer_id"][place]), words)
    for producer_id in np.setdiff1d(ids, known["producer_id"].astype(np.int64)).tolist():
        begun = producers[producer_id].open_from
        if begun is not None:
            found[producer_id] = f"is not in it, but its transaction from offset {begun} on is open"
    return sorted(found.items())


_NAMES = {
    "epoch": "epoch",
    "last_sequence": "last sequence",
    "last_offset": "offset of the last batch",
    "open_from": "open transaction from offset",
    "coordinator_epoch": "coordinator epoch",
}


def _shown(number: int) -> str:
    return "none" if number == -1 else str(number)

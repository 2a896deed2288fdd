"""`bootstrap.checkpoint`: the records with which a new cluster begins. See `snapshot` for its form.

It lies in every data directory that was formatted; that of the metadata log counts. The controller writes its records
to the log when that has none, and nobody looks at the file again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tailrace.env import Clock, Files
from tailrace.metadata.versions import LATEST_METADATA_VERSION, METADATA_VERSION
from tailrace.model.errors import CorruptMetadataError
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.raft.snapshot import SnapshotHead, SnapshotReader
from tailrace.raft.snapshot_writer import write_snapshot
from tailrace.storage.names import join

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
MAX_RECORDS: Final = 100_000
"""Features and, from a person's hand, credentials: more than this is no bootstrap file."""


def feature_records(features: Mapping[str, int]) -> tuple[VersionedRecord, ...]:
    """metadata.version first, which the others are understood by; then by name. A level of 0 is not written down."""
    wanted = {METADATA_VERSION: LATEST_METADATA_VERSION, **features}
    ordered = sorted(wanted, key=lambda name: (name != METADATA_VERSION, name))
    return tuple(
        VersionedRecord(FeatureLevelRecord(name=name, feature_level=wanted[name]), 0)
        for name in ordered
        if wanted[name] > 0
    )


def write_bootstrap(files: Files, clock: Clock, directory: str, features: Mapping[str, int]) -> None:
    records = iter(feature_records(features))
    write_snapshot(files, clock, join(directory, BOOTSTRAP_FILE), records, SnapshotHead(timestamp_ms=0))


def read_bootstrap_records(files: Files, directory: str) -> tuple[VersionedRecord, ...]:
    """Only metadata.version where there is no file."""
    path = join(directory, BOOTSTRAP_FILE)
    if not files.exists(path):
        return feature_records({})
    found: list[VersionedRecord] = []
    for record in SnapshotReader(files, path).records():
        if len(found) == MAX_RECORDS:
            raise CorruptMetadataError(f"{path} has more than {MAX_RECORDS} records")
        found.append(record)
    return tuple(found)

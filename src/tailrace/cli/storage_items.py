"""Formatted directories as items with keys that stay: one `metadata`, then a `directory` for each."""

from __future__ import annotations

from tailrace.cli.lines import Item
from tailrace.metadata.versions import METADATA_VERSION, NAMES
from tailrace.raft.inspection import FoundDirectory, Inspection
from tailrace.raft.voters import Voter


def metadata_item(found: Inspection) -> Item:
    """`features` and `controllers` are those that the cluster began with, `voters` those that the log names last.

    Controllers and voters have the form of --initial-controllers. None where unknown.
    """
    meta, beginning, log = found.meta, found.beginning, found.log
    version = beginning.features.get(METADATA_VERSION) if beginning is not None else None
    head = beginning.head if beginning is not None else None
    return {
        "type": "metadata",
        "cluster_id": meta.cluster_id if meta is not None else None,
        "node_id": meta.node_id if meta is not None else None,
        "release": NAMES.get(version) if version is not None else None,
        "features": beginning.features if beginning is not None and beginning.features else None,
        "kraft_version": head.kraft_version if head is not None else None,
        "controllers": [_controller(voter) for voter in head.voters] if head is not None else None,
        "log_end": log.end_offset if log is not None else None,
        "log_epoch": log.epoch if log is not None else None,
        "voters": [_controller(voter) for voter in log.voters] if log is not None and log.voters is not None else None,
    }


def directory_item(directory: FoundDirectory, metadata_directory: str) -> Item:
    meta = directory.meta
    return {
        "type": "directory",
        "path": directory.path,
        "holds": "metadata" if directory.path == metadata_directory else "data",
        "state": directory.state.value,
        "cluster_id": meta.cluster_id if meta is not None else None,
        "node_id": meta.node_id if meta is not None else None,
        "directory_id": str(meta.directory_id) if meta is not None and meta.directory_id is not None else None,
    }


def _controller(voter: Voter) -> str:
    """In the form of --initial-controllers, with the first of its addresses."""
    if not voter.endpoints:
        return f"{voter.node_id}@:{voter.directory_id}"
    where = voter.endpoints[0]
    host = f"[{where.host}]" if ":" in where.host else where.host
    return f"{voter.node_id}@{host}:{where.port}:{voter.directory_id}"

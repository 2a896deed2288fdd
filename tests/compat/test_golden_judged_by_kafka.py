"""The golden directories say what Kafka says of them: nobody has edited a file or an expectation by hand."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from golden.corpus import case_names, load
from support.kafka.tools import FileDump, dump_log_segments

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("kafka_jars")]

KINDS = {
    ".index": "offset_indexes",
    ".timeindex": "time_indexes",
    ".txnindex": "transaction_indexes",
    ".snapshot": "snapshots",
}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory, kafka_jars: None) -> dict[str, list[FileDump]]:
    """By case, from copies: the tool opens indexes as a broker does."""
    folder = tmp_path_factory.mktemp("golden")
    copies = {name: load(name).copy_to(folder) for name in case_names()}
    files = [file for copy in copies.values() for file in sorted(copy.iterdir()) if is_dumpable(file)]
    found = dump_log_segments(files, allow_gaps=True, allow_index_complaints=True)
    return {name: [dump for file, dump in found.items() if file.parent == copy] for name, copy in copies.items()}


def is_dumpable(file: Path) -> bool:
    """The tool stumbles over an index of zeros only, which a killed broker leaves where it had no entries."""
    if file.suffix in (".index", ".timeindex"):
        return any(file.read_bytes()) or file.stat().st_size == 0
    return file.suffix in (".log", ".txnindex", ".snapshot")


@pytest.mark.parametrize("name", case_names())
def test_expectations_are_kafkas_words(dumps: dict[str, list[FileDump]], name: str) -> None:
    expected = load(name).expected
    assert {file.name: file.stat().st_size for file in load(name).folder.iterdir()} == expected["files"]
    for dump in dumps[name]:
        if dump.path.suffix == ".log":
            assert [shortened(batch) for batch in dump.batches] == expected["logs"][dump.path.name]
            assert [list(gap) for gap in dump.gaps] == expected["gaps"].get(dump.path.name, [])
        else:
            assert dump.entries == expected[KINDS[dump.path.suffix]][dump.path.name]
            assert dump.index_complaints == expected["index_complaints"].get(dump.path.name, [])


def shortened(batch: dict[str, Any]) -> dict[str, Any]:
    """As in expected.json, where a digest stands for a long payload."""
    records = []
    for record in batch["records"]:
        if len(record.get("payload", "")) > 300:
            digest = hashlib.sha256(record["payload"].encode()).hexdigest()
            record = {name: value for name, value in record.items() if name != "payload"} | {"payloadSha256": digest}
        records.append(record)
    return batch | {"records": records}

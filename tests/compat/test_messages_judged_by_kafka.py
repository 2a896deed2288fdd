"""Our declarations beside Kafka's schemas, and metadata records that we wrote read by Kafka's DumpLogSegments."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import make_messages
from support.kafka.tools import DUMP_TOOL, run_tool
from support.protocol.random_messages import random_message
from tailrace.protocol.apis import APIS
from tailrace.protocol.message import Record, Struct
from tailrace.protocol.record_frame import METADATA_RECORDS, encode_metadata_record
from tailrace.protocol.schema import UUID, ArrayOf, Field
from tailrace.record.builder import batch_of

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("kafka_jars")]

T0 = 1_700_000_000_000
INSTANCES = 5

Written = list[tuple[Record, int]]


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Written, list[dict[str, Any]]]:
    """Records of every type and version, and what Kafka takes them for."""
    random = Random(1)
    written: Written = []
    for kind in METADATA_RECORDS.values():
        for version in range(kind.VERSIONS[0], kind.VERSIONS[1] + 1):
            for _ in range(INSTANCES):
                record = random_message(kind, version, random)
                assert isinstance(record, Record)
                written.append((record, version))
    log = tmp_path_factory.mktemp("metadata") / "__cluster_metadata-0" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(batch_of([(T0, None, encode_metadata_record(record, version), ()) for record, version in written]))
    output, _ = run_tool(DUMP_TOOL, "--cluster-metadata-decoder", "--files", str(log))
    payloads = [line.partition("payload: ")[2] for line in output.splitlines() if "payload: " in line]
    return written, [json.loads(payload) for payload in payloads]


def test_kafka_reads_the_metadata_records_that_we_wrote(dumped: tuple[Written, list[dict[str, Any]]]) -> None:
    written, read = dumped
    assert len(read) == len(written)
    for (record, version), seen in zip(written, read, strict=True):
        name = make_messages.snake(type(record).__name__).upper()
        assert (seen["type"], seen["version"]) == (name, version)
        assert_same(record, seen["data"])


def assert_same(ours: Struct, theirs: dict[str, Any]) -> None:
    """Kafka leaves out tagged fields that have their default; nothing else."""
    seen = {make_messages.snake(name): value for name, value in theirs.items()}
    assert seen.keys() <= {f.name for f in ours.__fields__}
    for f in ours.__fields__:
        value = getattr(ours, f.name)
        if f.name in seen:
            assert_same_value(value, seen[f.name], f)
        else:
            assert value == f.default_value(), f.name


def assert_same_value(ours: Any, theirs: Any, f: Field) -> None:
    if isinstance(ours, Struct):
        assert_same(ours, theirs)
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for mine, seen in zip(ours, theirs, strict=True):
            assert_same_value(mine, seen, f)
    elif isinstance(ours, bytes):
        is_uuid = (f.type.element if isinstance(f.type, ArrayOf) else f.type) is UUID
        padded = f"{theirs}==" if is_uuid else theirs
        assert base64.b64decode(padded, altchars=b"-_" if is_uuid else None) == ours
    else:
        assert ours == theirs, f.name


@pytest.fixture
def jars() -> Path:
    if not any(make_messages.DEFAULT_JARS.glob("kafka-clients-*.jar")):
        run_tool("kafka.tools.StorageTool", "random-uuid")  # the first run of any tool fetches the jars
    return make_messages.DEFAULT_JARS


def test_declarations_are_those_of_kafka(jars: Path, tmp_path: Path) -> None:
    written = make_messages.write_modules(jars, tmp_path)
    for path in written:
        name = path.relative_to(tmp_path)
        assert path.read_text() == (make_messages.OUT / name).read_text(), name
    kept = {path.relative_to(make_messages.OUT) for path in make_messages.OUT.glob("messages/*.py")}
    assert {path.relative_to(tmp_path) for path in written} >= kept - {Path("messages/__init__.py")}


def test_the_table_of_apis_is_that_of_kafka(jars: Path) -> None:
    schemas = make_messages.read_schemas(jars).values()
    theirs = {schema["apiKey"]: schema for schema in schemas if schema["type"] == "request"}
    assert theirs.keys() == APIS.keys()
    for key, schema in theirs.items():
        api = APIS[key]
        assert schema["name"] == f"{api.name}Request"
        assert set(schema["listeners"]) == api.listeners
        assert schema.get("latestVersionUnstable", False) == api.latest_is_unstable

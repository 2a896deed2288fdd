"""docs/formats: every worked example is what our readers and writers make of it, every byte table is the code's."""

from __future__ import annotations

import re
from typing import Any

import pytest
from doc_examples import (
    FORMATS,
    Example,
    Row,
    attributes_of,
    byte_table,
    check_line,
    examples,
    parse,
    struct_format,
    table_rows,
    without_numbers,
)
from format_codecs import CODECS
from message_fields import declared_rows

from support.docs.page_blocks import ROOT, blocks
from tailrace.config.log import LogConfig
from tailrace.env import Mode
from tailrace.model.ids import TopicPartition
from tailrace.protocol.message import Struct
from tailrace.protocol.record_frame import METADATA_RECORDS
from tailrace.protocol.records.control import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersVoter,
)
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.protocol.records.topics import PartitionRecord, TopicRecord
from tailrace.raft import snapshot
from tailrace.record import batch, builder, compression, control, legacy, shallow
from tailrace.record.builder import batch_of
from tailrace.record.varint import decode_varint, encode_varint
from tailrace.sim import World
from tailrace.storage import index_entries, names, offset_index, producer_snapshot, time_index, transaction_index
from tailrace.storage.loader import LoadOptions, load
from tailrace.storage.manager import log_move
from tailrace.storage.warm import WarmSet

GOLDEN = [ROOT / "tests" / "golden" / name for name in ("kafka-4.3.1", "kafka-4.3.1-quorum")]
DOCUMENTS = sorted(path.name for path in FORMATS.glob("*.md"))
EXAMPLES = [example for document in DOCUMENTS for example in examples(document)]

# The table of each group of a format's fields, by what stands before the name: `entry` for `entry[2].position`.
HEADER = ("record-batch.md", "Header")
RECORD = ("record.md", "Fields")
RECORD_HEADER = ("record.md", "Record headers")
TABLES = {
    "record-batch": {"": HEADER, "record": RECORD, "record.header": RECORD_HEADER},
    "record": {"": RECORD, "header": RECORD_HEADER},
    "control-batch": {
        "": HEADER,
        "record": RECORD,
        "key": ("control-records.md", "Key"),
        "value": ("control-records.md", "Value of a marker"),
    },
    "legacy-message": {},  # by magic
    "compressed": {},  # by codec
    "offset-index": {"entry": ("offset-index.md", "Entry")},
    "time-index": {"entry": ("time-index.md", "Entry")},
    "transaction-index": {"entry": ("transaction-index.md", "Entry")},
    "producer-snapshot": {"": ("producer-snapshot.md", "Header"), "entry": ("producer-snapshot.md", "Entry")},
    "metadata-record": {"": ("metadata-log.md", "Frame")},
    "quorum-value": {},
    "metadata-snapshot": {
        "batch": HEADER,
        "batch.record": RECORD,
        "batch.record.key": ("control-records.md", "Key"),
    },
}
# Values of records: the table of a struct has its name.
VALUES: dict[str, tuple[str, type[Struct], int]] = {
    "TopicRecord": ("metadata-log.md", TopicRecord, 0),
    "PartitionRecord": ("metadata-log.md", PartitionRecord, 2),
    "FeatureLevelRecord": ("metadata-log.md", FeatureLevelRecord, 0),
    "LeaderChangeMessage": ("control-records.md", LeaderChangeMessage, 0),
    "LeaderChangeMessage.voters": ("control-records.md", LeaderChangeVoter, 0),
    "SnapshotHeaderRecord": ("control-records.md", SnapshotHeaderRecord, 0),
    "SnapshotFooterRecord": ("control-records.md", SnapshotFooterRecord, 0),
    "KRaftVersionRecord": ("control-records.md", KRaftVersionRecord, 0),
    "VotersRecord": ("control-records.md", VotersRecord, 0),
    "VotersRecord.voters": ("control-records.md", VotersVoter, 0),
    "VotersRecord.voters.endpoints": ("control-records.md", Endpoint, 0),
    "VotersRecord.voters.kraftVersionFeature": ("control-records.md", KRaftVersionFeature, 0),
}
_SAME_TABLE = {"LeaderChangeMessage.grantingVoters": "LeaderChangeMessage.voters"}
_OF_VALUE = re.compile(r"(?:batch\.record\.)?([A-Z].*)")

# What depends on how a library packs: another version of it may pack otherwise.
PACKED = {"batchLength", "crc", "length"}


def table_of(example: Example, group: str) -> list[Row]:
    if example.format == "compressed":
        return byte_table("compression.md", example.attributes["codec"])
    if example.format == "legacy-message":
        return byte_table("legacy-message-sets.md", f"Magic {stated(example)['magic']}")
    tables = TABLES[example.format]
    if value := _OF_VALUE.fullmatch(group):
        heading = _SAME_TABLE.get(value[1], value[1])
        assert heading in VALUES, f"{example}: no table for {heading}"
        return byte_table(VALUES[heading][0], heading)
    if example.format == "metadata-snapshot" and group == "batch.record":
        return [*byte_table(*RECORD), *byte_table("metadata-log.md", "Frame")]
    assert group in tables, f"{example}: there are no fields {group}"
    return byte_table(*tables[group])


def stated(example: Example) -> dict[str, Any]:
    fields = {line.name: parse(line.value) for line in example.lines}
    return fields | {name: parse(value) for name, value in example.derived.items()}


def test_every_format_has_a_document_and_every_document_an_example() -> None:
    expected = {
        "README.md",
        "compression.md",
        "control-records.md",
        "directory.md",
        "leader-epoch-checkpoint.md",
        "legacy-message-sets.md",
        "meta-properties.md",
        "metadata-log.md",
        "metadata-snapshot.md",
        "offset-checkpoints.md",
        "offset-index.md",
        "partition-metadata.md",
        "producer-snapshot.md",
        "quorum-state.md",
        "record-batch.md",
        "record.md",
        "time-index.md",
        "transaction-index.md",
    }
    assert set(DOCUMENTS) == expected
    with_examples = {example.document for example in EXAMPLES} | {"directory.md"}
    assert with_examples == expected
    assert {example.format for example in EXAMPLES} == set(CODECS)
    listed = re.findall(r"\]\(([a-z-]+\.md)\)", (FORMATS / "README.md").read_text())
    assert set(listed) == expected - {"README.md"}


def test_no_block_is_of_an_unknown_kind() -> None:
    for document in DOCUMENTS:
        for block in blocks(FORMATS / document):
            assert block.kind in ("bytes", "text", "load"), f"{document}:{block.line}: {block.info!r}"


@pytest.mark.parametrize("example", [each for each in EXAMPLES if each.kind == "bytes"], ids=str)
def test_bytes_stand_beside_their_values_and_where_the_tables_put_them(example: Example) -> None:
    """Field by field, by the types and positions in the tables and not by our readers."""
    starts: dict[str, int] = {}
    for line in example.lines:
        owner, _, name = line.name.rpartition(".")
        rows = {row.name: row for row in table_of(example, without_numbers(owner))}
        row = rows.get(without_numbers(name))
        assert row is not None, f"{example}: no table has the field {line.name}"
        check_line(line, row.type)
        start = starts.setdefault(owner, line.position)
        place = row.position
        assert place is None or start + place == line.position, f"{example}: {line.name} stands at {place}"


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_our_reader_finds_the_stated_values(example: Example) -> None:
    decoded = CODECS[example.format].decode(example.data, example.attributes)
    fields = stated(example)
    # What a reader derives may be stated; what has bytes must be.
    derived = {"lastOffset", "offset", "timestamp"}
    needed = {name for name in decoded if name in fields or name.rpartition(".")[2] not in derived}
    assert {name: fields.get(name) for name in needed} == {name: decoded[name] for name in needed}
    assert set(example.derived) <= set(decoded), f"{example}: nothing derives {set(example.derived) - set(decoded)}"


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_our_writer_makes_the_same_bytes(example: Example) -> None:
    codec = CODECS[example.format]
    fields = stated(example)
    written = codec.encode(fields, example.attributes)
    if example.attributes.get("codec") == "gzip" or fields.get("attributes", 0) & batch.CODEC_MASK:
        again, decoded = (codec.decode(data, example.attributes) for data in (written, example.data))
        assert {**again, **dict.fromkeys(PACKED)} == {**decoded, **dict.fromkeys(PACKED)}
    else:
        assert written == example.data


@pytest.mark.parametrize("example", [each for each in EXAMPLES if "from" in each.attributes], ids=str)
def test_an_example_from_kafka_is_kafkas(example: Example) -> None:
    at = int(example.attributes.get("at", "0"))
    (path,) = (
        folder / example.attributes["from"] for folder in GOLDEN if (folder / example.attributes["from"]).exists()
    )
    content = path.read_bytes()
    assert content[at : at + len(example.data)] == example.data
    if "at" not in example.attributes:
        assert len(content) == len(example.data)


@pytest.mark.parametrize(
    ("document", "heading", "layouts"),
    [
        ("record-batch.md", "Header", [batch.HEADER]),
        ("control-records.md", "Key", [control._KEY]),
        ("control-records.md", "Value of a marker", [control._END_TXN_VALUE]),
        ("offset-index.md", "Entry", [offset_index._ENTRY, index_entries.OFFSET_ENTRY]),
        ("time-index.md", "Entry", [time_index._ENTRY, index_entries.TIME_ENTRY]),
        ("transaction-index.md", "Entry", [transaction_index._ENTRY, index_entries.TXN_ENTRY]),
        ("producer-snapshot.md", "Header", [producer_snapshot._HEADER]),
        ("producer-snapshot.md", "Entry", [producer_snapshot._ENTRY]),
    ],
)
def test_byte_tables_are_the_structs_of_the_code(document: str, heading: str, layouts: list[Any]) -> None:
    rows = byte_table(document, heading)
    for layout in layouts:
        assert struct_format(rows) == layout.format
        assert sum(row.size or 0 for row in rows if row.type != "bytes") == layout.size


def test_positions_in_the_batch_header() -> None:
    rows = {row.name: row.position for row in byte_table("record-batch.md", "Header")}
    assert rows["records"] == batch.HEADER_BYTES
    assert rows["partitionLeaderEpoch"] == batch.LOG_OVERHEAD == batch.EPOCH_AT
    assert rows["magic"] == batch.MAGIC_AT
    assert rows["crc"] == batch.CRC_AT
    assert rows["attributes"] == batch.ATTRIBUTES_AT
    assert rows["maxTimestamp"] == batch.MAX_TIMESTAMP_AT


def test_attribute_bits() -> None:
    masks = {row["attribute"]: int(row["mask"], 16) for row in table_rows("record-batch.md", "Attributes")}
    assert masks == {
        "codec": batch.CODEC_MASK,
        "timestampType": batch.TIMESTAMP_TYPE_BIT,
        "isTransactional": batch.TRANSACTIONAL_BIT,
        "isControlBatch": batch.CONTROL_BIT,
        "hasDeleteHorizon": batch.DELETE_HORIZON_BIT,
        "unused": 0xFFFF & ~builder.KNOWN_ATTRIBUTES,
    }


def test_codecs_and_control_types_have_their_numbers() -> None:
    codecs = [(row["codec"], row["name"]) for row in table_rows("compression.md", "Codecs")]
    assert codecs == [(str(number), name) for number, name in enumerate(compression.CODEC_NAMES)]
    types = {row["name"]: int(row["type"]) for row in table_rows("control-records.md", "Types")}
    assert types == {name: getattr(control, name) for name in types}
    assert sorted(types.values()) == list(range(control.KRAFT_VOTERS + 1))


@pytest.mark.parametrize("heading", VALUES)
def test_tables_of_values_are_the_classes_of_the_code(heading: str) -> None:
    document, kind, version = VALUES[heading]
    rows = [(row.name, row.type) for row in byte_table(document, heading)]
    assert rows == [tuple(row) for row in declared_rows(kind, version)]


def test_types_of_metadata_records() -> None:
    rows = {int(row["type"]): (row["record"], row["versions"]) for row in table_rows("metadata-log.md", "Types")}
    expected = {}
    for key, kind in METADATA_RECORDS.items():
        first, last = kind.VERSIONS
        expected[key] = (kind.__name__, f"{first}–{last}" if last > first else str(first))
    assert rows == expected


def test_names_of_snapshots() -> None:
    rows = table_rows("metadata-snapshot.md", "Names")
    parsed = [snapshot.parse_name(row["name"].replace("N", "7")) for row in rows]
    assert [each.suffix for each in parsed if each is not None] == [
        snapshot.SUFFIX,
        snapshot.PARTIAL_SUFFIX,
        snapshot.DELETED_SUFFIX,
    ]
    assert {each.id for each in parsed if each is not None} == {snapshot.SnapshotId(45, 1)}


@pytest.mark.parametrize(("magic", "layout"), [(0, shallow._LEGACY_V0), (1, shallow._LEGACY_V1)])
def test_legacy_tables_are_the_structs_of_the_code(magic: int, layout: Any) -> None:
    rows = byte_table("legacy-message-sets.md", f"Magic {magic}")
    places = {row.name: row.position for row in rows}
    assert struct_format(rows) == layout.format + "i"  # and the length of the key
    assert places["keyLength"] == legacy.KEY_AT[magic]
    assert places["magic"] == batch.MAGIC_AT


def test_the_least_lengths_of_each_magic() -> None:
    rows = table_rows("legacy-message-sets.md", "Telling the formats apart")
    assert {int(row["magic"]): int(row["least length"]) for row in rows} == shallow.LEAST_LENGTH


def test_varints() -> None:
    rows = table_rows("record.md", "Variable-length integers")
    assert len(rows) > 5
    for row in rows:
        number, data = int(row["number"].replace("−", "-")), bytes.fromhex(row["bytes"])
        assert encode_varint(number) == data
        assert decode_varint(data, 0, len(data)) == (number, len(data))


def test_names_of_a_partitions_files() -> None:
    rows = table_rows("directory.md", "Names")
    made = {
        "records": names.log_name(147001),
        "offset index": names.offset_index_name(147001),
        "time index": names.time_index_name(147001),
        "transaction index": names.txn_index_name(147001),
        "producer snapshot": names.snapshot_name(147001),
        "leader epochs": names.LEADER_EPOCH_CHECKPOINT,
        "topic id": names.PARTITION_METADATA,
        "ours, and empty": log_move.COMPLETE,
    }
    assert {row["what"]: row["name"] for row in rows} == made
    assert names.partition_dir_name(TopicPartition("orders", 3)) == "orders-3"
    assert "`orders-3`" in (FORMATS / "directory.md").read_text()


def test_suffixes() -> None:
    rows = {row["suffix"] for row in table_rows("directory.md", "Suffixes")}
    assert rows == {names.DELETED_SUFFIX, names.CLEANED_SUFFIX, names.SWAP_SUFFIX, names.TEMPORARY_SUFFIX}


LOADS = [(f"directory.md:{each.line}", each.info, each.lines) for each in blocks(FORMATS / "directory.md")]
_SEGMENT_FILE = re.compile(r"\d{20}\.(log|index|timeindex|txnindex)(\.\w+)?")
_LOAD_LINE = re.compile(r"(?P<name>\S+)  +(?:(?P<first>\d+)…(?P<last>\d+)  +)?(?P<outcome>.+)")


@pytest.mark.parametrize(("info", "lines"), [each[1:] for each in LOADS], ids=[each[0] for each in LOADS])
def test_what_opening_a_directory_does_to_its_files(info: str, lines: list[str]) -> None:
    """A line is `name  first…last  outcome`: the offsets of a data file, then what the load does to the file."""
    kind, *words = info.split()
    assert kind == "load"
    attributes = attributes_of(words)
    directory = "/data/orders-3"
    world = World(directories=("/data", directory))
    expected = set()
    for line in lines:
        found = _LOAD_LINE.fullmatch(line)
        assert found, line
        name, outcome = found["name"], found["outcome"]
        if outcome != "appears":
            write(world, f"{directory}/{name}", found["first"], found["last"])
        if outcome in ("stays", "appears"):
            expected.add(name)
        elif outcome.startswith("becomes "):
            expected.add(outcome.removeprefix("becomes "))
        else:
            assert outcome == "goes", line
    world.disk.sync_all()
    log = load(
        world.env,
        directory,
        LogConfig(),
        WarmSet(4),
        LoadOptions(was_clean=attributes["clean"] == "yes", recovery_point=int(attributes.get("recovery_point", "0"))),
    )
    world.jobs.run_all()
    assert {entry.name for entry in world.disk.list(directory) if _SEGMENT_FILE.fullmatch(entry.name)} == expected
    assert log.log_end_offset == int(attributes["end"])


def write(world: World, path: str, first: str | None, last: str | None) -> None:
    data = b""
    if first is not None and last is not None:
        count = int(last) - int(first) + 1
        data = bytes(batch_of([(0, b"k", b"v")] * count, base_offset=int(first), leader_epoch=0))
    world.disk.open(path, Mode.REPLACE).write_at([data], 0)

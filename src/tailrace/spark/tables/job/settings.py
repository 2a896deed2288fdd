"""What a table is to become, checked before anything is touched.

Options of the source (`kafka.client.id`, `startingOffsets`, `failOnDataLoss`, `maxOffsetsPerTrigger` …) are taken as it
takes them, and some more:

codec          of the files: snappy (as it comes), zstd, gzip, lz4 or none
inferRecords   how many records the columns of JSON values are inferred from, when the table is made
framed         values have Schema Registry's frame: the byte 0 and a schema's id; as it comes, where a registry is given
message        Protobuf: the message's full name, where the schema has several
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tailrace.metadata.topic_names import is_legal_topic_name
from tailrace.spark.errors import OptionError
from tailrace.spark.options.closest import closest
from tailrace.spark.options.given import Given
from tailrace.spark.options.source import SourceOptions, source_options
from tailrace.spark.tables.columns import DAY
from tailrace.spark.tables.store import APPEND, UPSERT

if TYPE_CHECKING:
    from tailrace.spark.tables.values.spec import ValueSpec

PARQUET: Final = "parquet"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
FORMATS: Final = (DELTA, ICEBERG, PARQUET)
MODES: Final = (APPEND, UPSERT)
VALUES: Final = ("bytes", "string", "json", "avro", "protobuf")
KEYS: Final = ("bytes", "string")
CODECS: Final = ("snappy", "zstd", "gzip", "lz4", "none")

DEFAULT_BUCKETS: Final = 32
MOST_BUCKETS: Final = 65_536
DEFAULT_RETAIN: Final = "7d"
DEFAULT_FILE_SIZE: Final = "128MB"
DEFAULT_MAX_OFFSETS: Final = 5_000_000
"""Of one batch. More take longer to do again after a crash, and upserts shuffle them."""
DEFAULT_INFER_RECORDS: Final = 10_000
LEAST_FILE_BYTES: Final = 1 << 10

BARRED: Final = {DELTA: " ,;{}()\n\t="}
"""Characters that names of columns must not have."""

OWN_OPTIONS: Final = ("codec", "inferRecords", "framed", "message")
_SAID_OTHERWISE: Final = {
    "subscribe": "a table is of one topic, which is the first argument",
    "subscribepattern": "a table is of one topic, which is the first argument",
    "assign": "a table is of one topic, with all its partitions",
    "columns": "a table has all columns",
    "includeheaders": "a table has all columns",
    "filterpushdown": "a table has all records",
    "timestampdisorder": "a table has all records",
}
_SIZE: Final = re.compile(r"([0-9]{1,15})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class TableSettings:
    topic: str
    place: str
    """As it was given."""
    format: str
    mode: str
    key: str
    values: ValueSpec
    source: SourceOptions
    partition_by: tuple[str, ...] = ()
    """Columns by which a new table is partitioned; none: a table that is there keeps its own."""
    buckets: int | None = None
    """Of upserts. None: those of the table, or the usual number for a new one."""
    trigger_ms: int | None = None
    """How often a running job looks for records; None: once, up to where the topic ends now."""
    retain_ms: int = 7 * 86_400_000
    target_bytes: int = 128 << 20
    codec: str = "snappy"
    upkeep: bool = True
    catalog: Mapping[str, str] = field(default_factory=dict)
    """Iceberg's, if it is not the one beside the table."""

    @property
    def max_offsets(self) -> int:
        return self.source.max_offsets_per_trigger or DEFAULT_MAX_OFFSETS


def table_settings(
    topic: str,
    *,
    to: str,
    brokers: str | None = None,
    path: str | None = None,
    format: str = DELTA,  # noqa: A002  # the word that everybody uses for it
    mode: str = APPEND,
    value: str = "bytes",
    key: str = "bytes",
    schema: str | None = None,
    registry: str | None = None,
    value_column: str | None = None,
    partition_by: str | Iterable[str] = (),
    buckets: int | None = None,
    trigger: str | int | None = None,
    retain: str | int = DEFAULT_RETAIN,
    target_file_size: str | int = DEFAULT_FILE_SIZE,
    upkeep: bool = True,
    catalog: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
) -> TableSettings:
    """OptionError for whatever cannot be. Times and sizes are texts such as `10s` and `128MB`, or ms and bytes."""
    given = Given(
        {
            "format": format,
            "mode": mode,
            "value": value,
            "key": key,
            "buckets": buckets,
            "trigger": trigger,
            "retain": retain,
            "target_file_size": target_file_size,
            **{name: text for name, text in (options or {}).items() if name.lower() in _OWN},
        }
    )
    kind = _choice(given, "format", FORMATS)
    way = _choice(given, "mode", MODES)
    if way == UPSERT and kind == PARQUET:
        raise OptionError("mode upsert goes with format delta or iceberg: a Parquet table is append only")
    columns = tuple([partition_by] if isinstance(partition_by, str) else partition_by)
    _check_partitioning(columns, way)
    if buckets is not None and way != UPSERT:
        raise OptionError("buckets go with mode upsert: rows of an append table have no place of their own")
    if catalog and kind != ICEBERG:
        raise OptionError(f"a catalog goes with format iceberg: a table of format {kind} is a folder")
    return TableSettings(
        topic=topic,
        place=_place(to),
        format=kind,
        mode=way,
        key=_choice(given, "key", KEYS),
        values=_value_spec(given, schema, registry, value_column, BARRED.get(kind, "")),
        source=_source(topic, brokers, path, options or {}),
        partition_by=columns,
        buckets=given.whole("buckets", least=1, greatest=MOST_BUCKETS),
        trigger_ms=given.duration_ms("trigger"),
        retain_ms=_duration(given, "retain"),
        target_bytes=_size(given, "target_file_size"),
        codec=_choice(given, "codec", CODECS, "snappy"),
        upkeep=upkeep,
        catalog=dict(catalog or {}),
    )


def _choice(given: Given, name: str, allowed: tuple[str, ...], default: str = "") -> str:
    text = (given.text(name) or default).lower()
    if text not in allowed:
        raise OptionError(f"{name} is {text!r}: it must be one of {', '.join(allowed)}{closest(text, allowed)}")
    return text


def _check_partitioning(columns: tuple[str, ...], mode: str) -> None:
    if columns and mode == UPSERT:
        raise OptionError("an upsert table is partitioned by the bucket of its keys, and by nothing else")
    if len({name.lower() for name in columns}) != len(columns) or not all(columns):
        raise OptionError(f"partition_by is {', '.join(columns)}: each column once, such as {DAY}")


def _place(to: str) -> str:
    if not str(to).strip():
        raise OptionError("to is empty: it must say where the table is to be")
    return str(to)


def _value_spec(given: Given, schema: str | None, registry: str | None, column: str | None, barred: str) -> ValueSpec:
    from tailrace.spark.tables.values.spec import ValueSpec

    infer = given.whole("inferRecords", least=1, greatest=10_000_000)
    return ValueSpec(
        format=_choice(given, "value", VALUES),
        schema=schema,
        registry=registry,
        column=column,
        framed=given.boolean("framed", registry is not None),
        infer_records=DEFAULT_INFER_RECORDS if infer is None else infer,
        message=given.text("message"),
        barred=barred,
    )


def _source(topic: str, brokers: str | None, path: str | None, options: Mapping[str, object]) -> SourceOptions:
    """With all columns; committed records only, and from the earliest on, unless the options say otherwise."""
    if not is_legal_topic_name(topic):
        raise OptionError(f"topic {topic[:60]!r} is no name of a topic: a table is of one")
    taken: dict[str, object] = {}
    for name, value in options.items():
        if name.lower() in _SAID_OTHERWISE:
            raise OptionError(f"option {name} does not go with a table: {_SAID_OTHERWISE[name.lower()]}")
        if name.lower() not in _OWN:
            taken[name] = value
    names = {name.lower(): name for name in taken}
    for name, argument in (("kafka.bootstrap.servers", brokers), ("path", path)):
        if argument is None:
            continue
        if name in names and taken[names[name]] != argument:
            raise OptionError(f"option {names[name]} contradicts an argument of the call: leave one of them out")
        taken.pop(names.get(name, name), None)
        taken[name] = argument
    if "kafka.isolation.level" not in names:
        taken["kafka.isolation.level"] = "read_committed"
    if not any(name.startswith("starting") for name in names):
        taken["startingOffsets"] = "earliest"
    return source_options({**taken, "subscribe": topic, "includeHeaders": "true"}, streaming=True)


def _duration(given: Given, name: str) -> int:
    found = given.duration_ms(name)
    assert found is not None
    return found


def _size(given: Given, name: str) -> int:
    text = given.text(name) or ""
    found = _SIZE.fullmatch(text)
    size = int(found[1]) << (10 * " kmgt".index(found[2].lower() or " ")) if found else 0
    if not LEAST_FILE_BYTES <= size < 1 << 40:
        raise given.refusal(name, "must be a size such as 128MB, from 1 KB to 1 TB")
    return size


_OWN: Final = frozenset(name.lower() for name in OWN_OPTIONS)

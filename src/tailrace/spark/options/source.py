"""Options of the source: those of Spark's Kafka source, and some more.

path              a log directory to read instead of asking brokers
columns           only these, with commas between them: Spark does not tell a Python source what a query needs
commitGroup       a consumer group that is told how far a stream is
skipCorrupt       pass over damaged batches, and count them, instead of failing
timestampDisorder a promise about the order of records, which lets a filter on time stop reading
filterPushdown    the session has `spark.sql.python.filterPushdown.enabled`, and the frame is used once
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from tailrace.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tailrace.spark.errors import OptionError
from tailrace.spark.options.client_keys import PREFIX, SOURCE_KEYS, tell_idle
from tailrace.spark.options.client_settings import ClientSettings, brokers, client_settings
from tailrace.spark.options.closest import closest
from tailrace.spark.options.given import MAX_INT, Given
from tailrace.spark.options.known_names import SINK_NAMES, SOURCE_NAMES, check_names
from tailrace.spark.options.positions import Earliest, Latest, Position, check_order, ending_position, starting_position
from tailrace.spark.options.subscription import Subscription, subscription

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS: Final = "headers"

_ISOLATIONS: Final = ("read_uncommitted", "read_committed")
_MAX_GROUP_CHARACTERS: Final = 249
_STREAMS_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_WITHOUT_EFFECT: Final = ("groupIdPrefix", "partition.metadata.cache.ttl.ms")


@dataclass(frozen=True)
class SourceOptions:
    """All that a reader needs to know, on the driver and in a task. Holds no secrets."""

    subscription: Subscription
    brokers: str | None = None
    path: str | None = None
    """One of the two, never both."""
    starting: Position = field(default_factory=Earliest)
    ending: Position = field(default_factory=Latest)
    timestamp_strategy: str = "error"
    """What a partition without records at or after its starting time begins with: `error` or `latest`."""
    isolation: int = READ_UNCOMMITTED
    columns: tuple[str, ...] = COLUMNS
    """In the schema's order; with `headers`, last, if they are wanted."""
    include_headers: bool = False
    fail_on_data_loss: bool = True
    skip_corrupt: bool = False
    filter_pushdown: bool = False
    timestamp_disorder_ms: int | None = None
    """No record is older by more than this than any before it. None: nobody says so."""
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    group_id_prefix: str | None = None
    commit_group: str | None = None
    poll_timeout_ms: int = 120_000
    """How long a task waits for brokers that do not answer."""
    fetch_retries: int = 3
    fetch_retry_interval_ms: int = 1_000
    client: ClientSettings = field(default_factory=ClientSettings)


def source_options(given: Mapping[str, object], *, streaming: bool) -> SourceOptions:
    """OptionError for whatever cannot be."""
    taken = Given(given)
    idle = _check_names(taken, streaming=streaming)
    where = brokers(taken)
    path = _path(taken)
    if (where is None) == (path is None):
        given_text = "neither" if where is None else "both"
        raise OptionError(f"one of the options kafka.bootstrap.servers and path must be given, not {given_text}")
    starting = starting_position(taken, streaming=streaming)
    ending = ending_position(taken, streaming=streaming)
    check_order(starting, ending)
    columns = chosen_columns(given)
    options = SourceOptions(
        subscription=subscription(taken),
        brokers=where,
        path=path,
        starting=starting,
        ending=ending,
        timestamp_strategy=taken.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error"),
        isolation=_isolation(taken),
        columns=columns,
        include_headers=HEADERS in columns,
        fail_on_data_loss=taken.boolean("failOnDataLoss", True),
        skip_corrupt=taken.boolean("skipCorrupt", False),
        filter_pushdown=taken.boolean("filterPushdown", False),
        timestamp_disorder_ms=taken.duration_ms("timestampDisorder"),
        min_partitions=taken.whole("minPartitions", least=1, greatest=MAX_INT),
        max_records_per_partition=taken.whole("maxRecordsPerPartition", least=1),
        max_offsets_per_trigger=taken.whole("maxOffsetsPerTrigger", least=1),
        min_offsets_per_trigger=taken.whole("minOffsetsPerTrigger", least=1),
        max_trigger_delay_ms=_default(taken.duration_ms("maxTriggerDelay"), 900_000),
        group_id_prefix=taken.text("groupIdPrefix"),
        commit_group=_commit_group(taken, streaming=streaming, has_brokers=where is not None),
        poll_timeout_ms=_default(taken.whole("kafkaConsumer.pollTimeoutMs", least=1, greatest=MAX_INT), 120_000),
        fetch_retries=_default(taken.whole("fetchOffset.numRetries", least=0, greatest=MAX_INT), 3),
        fetch_retry_interval_ms=_default(taken.whole("fetchOffset.retryIntervalMs", least=0, greatest=MAX_INT), 1_000),
        client=client_settings(taken),
    )
    _check_limits(options)
    tell_idle(idle)
    return options


def chosen_columns(given: Mapping[str, object]) -> tuple[str, ...]:
    """Of a batch or a stream, whatever else is said. Order is the schema's."""
    taken = Given(given)
    text = taken.text("columns")
    wants_headers = taken.boolean("includeHeaders", False)
    if text is None:
        return (*COLUMNS, HEADERS) if wants_headers else COLUMNS
    proper = {name.lower(): name for name in (*COLUMNS, HEADERS)}
    chosen = {HEADERS} if wants_headers else set()
    for part in text.split(","):
        name = proper.get(part.strip().lower())
        if name is None:
            allowed = f"must be some of {', '.join(proper.values())}, with commas between them"
            raise taken.refusal("columns", f"{allowed}: there is no {part.strip()!r}{closest(part, proper.values())}")
        chosen.add(name)
    if HEADERS in chosen and "includeHeaders" in taken and not wants_headers:
        raise taken.refusal("columns", "names headers, and includeHeaders is false: only one of them can be meant")
    return tuple(name for name in (*COLUMNS, HEADERS) if name in chosen)


def _check_names(taken: Given, *, streaming: bool) -> tuple[str, ...]:
    """Gives the names of those without effect."""
    names = taken.names()
    if "paths" in taken:
        raise taken.refusal("paths", "is not supported: path must be one directory")
    check_names(names, SOURCE_NAMES, SINK_NAMES, SOURCE_KEYS, "source")
    idle = SOURCE_KEYS.check([name for name in names if name.startswith(PREFIX)])
    taken.whole("partition.metadata.cache.ttl.ms", least=-1)
    own = _WITHOUT_EFFECT if streaming else (*_STREAMS_ONLY, *_WITHOUT_EFFECT)
    return (*(name for name in own if name in taken), *idle)


def _path(taken: Given) -> str | None:
    """A local one, as a path or as `file:`."""
    text = taken.text("path")
    if text is None:
        return None
    scheme, colon, rest = text.partition(":")
    if not colon or not scheme.isalnum() or not rest.startswith("/"):
        return os.path.abspath(text)  # where the driver is: executors are somewhere else
    if scheme.lower() != "file" or (rest.startswith("//") and not rest.startswith("///")):
        raise taken.refusal("path", "must be a directory that the driver and all executors see as a local one")
    return unquote("/" + rest.lstrip("/"))


def _isolation(taken: Given) -> int:
    name = taken.choice("kafka.isolation.level", _ISOLATIONS, _ISOLATIONS[0])
    return READ_COMMITTED if name == "read_committed" else READ_UNCOMMITTED


def _commit_group(taken: Given, *, streaming: bool, has_brokers: bool) -> str | None:
    group = taken.text("commitGroup")
    if group is None:
        return None
    if not streaming:
        raise taken.refusal("commitGroup", "is for streams only: a batch has no progress to commit")
    if not has_brokers:
        raise taken.refusal("commitGroup", "needs kafka.bootstrap.servers: a directory keeps no groups")
    if len(group) > _MAX_GROUP_CHARACTERS:
        raise taken.refusal("commitGroup", f"must have at most {_MAX_GROUP_CHARACTERS} characters")
    return group


def _check_limits(options: SourceOptions) -> None:
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger is {least}, more than maxOffsetsPerTrigger, {most}")


def _default(value: int | None, default: int) -> int:
    return default if value is None else value

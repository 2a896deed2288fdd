"""Options of the sink: those of Spark's Kafka sink, and some more.

delivery              at-least-once (default), or exactly-once: streams only, with a sinkId
sinkId                names the sink for good; one query writes under it at a time
acceptPartialEpoch    the batch id of an epoch of which a part was lost, and is given up
transactional         batches only: all rows become visible, or none
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace.client.producer import ACKS_ALL, BUFFERED_BYTES, REQUEST_BYTES
from tailrace.metadata.topic_names import is_legal_topic_name
from tailrace.record.compression import CODEC_NAMES
from tailrace.spark.errors import OptionError
from tailrace.spark.options.client_keys import PREFIX, SINK_KEYS, tell_idle
from tailrace.spark.options.client_settings import ClientSettings, brokers, client_settings
from tailrace.spark.options.given import MAX_INT, Given
from tailrace.spark.options.known_names import SINK_NAMES, SOURCE_NAMES, check_names

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"

_ACKS: Final = {"all": ACKS_ALL, "-1": ACKS_ALL, "1": 1, "0": 0}
_LEVELS: Final = {"gzip": (-1, 9), "lz4": (1, 17), "zstd": (-131_072, 22)}
_SINK_ID: Final = re.compile(r"[a-zA-Z0-9._-]{1,200}", re.ASCII)


@dataclass(frozen=True)
class SinkOptions:
    """All that a writer needs to know, on the driver and in a task. Holds no secrets."""

    brokers: str
    topic: str | None = None
    """None: every row names its own."""
    delivery: str = AT_LEAST_ONCE
    sink_id: str | None = None
    transactional: bool = False
    accept_partial_epoch: int | None = None
    codec: str = "none"
    level: int | None = None
    """On the codec's own scale; None is the codec's default."""
    batch_bytes: int = 1 << 19
    """Before compression: with all that belongs to a batch, below the 1 MiB that brokers take by default."""
    request_bytes: int = REQUEST_BYTES
    buffered_bytes: int = BUFFERED_BYTES
    acks: int = ACKS_ALL
    idempotent: bool = True
    delivery_timeout_ms: int = 120_000
    client: ClientSettings = field(default_factory=ClientSettings)

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery == EXACTLY_ONCE


def sink_options(given: Mapping[str, object], *, streaming: bool, overwrite: bool) -> SinkOptions:
    """OptionError for whatever cannot be.

    A stream in complete mode comes with `overwrite`: as with Spark's own sink, each result follows the one before.
    """
    if overwrite and not streaming:
        raise OptionError("mode overwrite is refused: a log is only written at its end; the mode must be append")
    taken = Given(given)
    names = taken.names()
    if "path" in taken or "paths" in taken:
        raise taken.refusal("path", "is one of the source only: the sink writes to kafka.bootstrap.servers")
    check_names(names, SINK_NAMES, SOURCE_NAMES, SINK_KEYS, "sink")
    idle = SINK_KEYS.check([name for name in names if name.startswith(PREFIX)])
    where = brokers(taken)
    if where is None:
        raise OptionError("option kafka.bootstrap.servers is not given: it must say where to write, as host:port")
    taken.boolean("includeHeaders", True)
    if taken.boolean("kafka.partitioner.ignore.keys", False):
        raise taken.refusal("kafka.partitioner.ignore.keys", "must be false: rows of one key stay in one partition")
    codec, level = _codec(taken)
    options = SinkOptions(
        brokers=where,
        topic=_topic(taken),
        delivery=taken.choice("delivery", (AT_LEAST_ONCE, EXACTLY_ONCE), AT_LEAST_ONCE),
        sink_id=_sink_id(taken),
        transactional=taken.boolean("transactional", False),
        accept_partial_epoch=taken.whole("acceptPartialEpoch", least=0),
        codec=codec,
        level=level,
        batch_bytes=_size(taken, "kafka.batch.size", SinkOptions.batch_bytes),
        request_bytes=_size(taken, "kafka.max.request.size", SinkOptions.request_bytes),
        buffered_bytes=_size(taken, "kafka.buffer.memory", SinkOptions.buffered_bytes),
        acks=_acks(taken),
        idempotent=taken.boolean("kafka.enable.idempotence", _acks(taken) == ACKS_ALL),
        delivery_timeout_ms=_size(taken, "kafka.delivery.timeout.ms", SinkOptions.delivery_timeout_ms),
        client=client_settings(taken),
    )
    _check_together(options, streaming=streaming)
    tell_idle(idle)
    return options


def _check_together(options: SinkOptions, *, streaming: bool) -> None:
    exactly_once, transactional = options.is_exactly_once, options.transactional
    if exactly_once and not streaming:
        raise OptionError("delivery=exactly-once is for streams only; a batch has transactional=true")
    if transactional and streaming:
        raise OptionError("transactional=true is for batches only; a stream has delivery=exactly-once")
    if exactly_once and options.sink_id is None:
        raise OptionError("delivery=exactly-once needs a sinkId: a name that only this query writes under")
    if options.sink_id is not None and not (exactly_once or transactional):
        raise OptionError(
            f"sinkId is {options.sink_id!r}, and has no meaning without "
            + ("delivery=exactly-once" if streaming else "transactional=true")
        )
    if options.accept_partial_epoch is not None and options.sink_id is None:
        raise OptionError(f"acceptPartialEpoch={options.accept_partial_epoch} has no meaning without a sinkId")
    if options.idempotent and options.acks != ACKS_ALL:
        raise OptionError(f"kafka.enable.idempotence=true needs kafka.acks=all, not {options.acks}")
    if (exactly_once or transactional) and not (options.idempotent and options.acks == ACKS_ALL):
        raise OptionError("transactions need kafka.acks=all and kafka.enable.idempotence=true")


def _topic(taken: Given) -> str | None:
    topic = taken.text("topic")
    if topic is not None and not is_legal_topic_name(topic):
        raise taken.refusal("topic", "must be up to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'")
    return topic


def _sink_id(taken: Given) -> str | None:
    sink_id = taken.text("sinkId")
    if sink_id is not None and _SINK_ID.fullmatch(sink_id) is None:
        raise taken.refusal("sinkId", "must be up to 200 of the characters a-z, A-Z, 0-9, '.', '_' and '-'")
    return sink_id


def _acks(taken: Given) -> int:
    return _ACKS[taken.choice("kafka.acks", tuple(_ACKS), "all")]


def _codec(taken: Given) -> tuple[str, int | None]:
    codec = taken.choice("kafka.compression.type", CODEC_NAMES, "none")
    levels = {
        each: taken.whole(f"kafka.compression.{each}.level", least=least, greatest=greatest)
        for each, (least, greatest) in _LEVELS.items()
    }
    level = levels.get(codec)
    if codec == "gzip" and level in (-1, 0):
        if level == 0:
            raise taken.refusal("kafka.compression.gzip.level", "must be from 1 to 9, or -1 for the usual level")
        return codec, None
    return codec, level


def _size(taken: Given, name: str, default: int) -> int:
    value = taken.whole(name, least=0, greatest=MAX_INT)
    return default if value is None else max(value, 1)

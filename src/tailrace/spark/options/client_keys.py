"""The keys of Kafka's clients, given as `kafka.KEY`, and what becomes of each.

    has an effect     our client does what it says
    without effect    how Kafka's own client works inside; no row depends on it. Accepted, with one warning for all
    refused           Spark's connector refuses it, or rows would be others than it says

Security is refused altogether: our client speaks PLAINTEXT, and what would follow is no connection. Every other key is
unknown, and refused with the closest that is known.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tailrace.spark.errors import OptionError
from tailrace.spark.options.closest import closest

PREFIX: Final = "kafka."

_log: Final = logging.getLogger("tailrace.spark")
_told: set[tuple[str, ...]] = set()


@dataclass(frozen=True)
class ClientKeys:
    """Of one direction; without the prefix."""

    with_effect: frozenset[str]
    without_effect: frozenset[str]
    refused: dict[str, str]
    """Key → why, and what to use instead."""

    @property
    def known(self) -> frozenset[str]:
        return self.with_effect | self.without_effect

    def check(self, names: Iterable[str]) -> tuple[str, ...]:
        """`names` have the prefix. Gives those without effect; OptionError at the first that is refused."""
        idle: list[str] = []
        for name in names:
            key = name.removeprefix(PREFIX)
            why = self.refused.get(key) or _refused_as_security(key)
            if why is not None:
                raise OptionError(f"option {name} is not supported: {why}")
            if key in self.without_effect:
                idle.append(name)
            elif key not in self.with_effect:
                known = [PREFIX + each for each in self.known]
                raise OptionError(f"option {name} is unknown: Kafka's client has no such key{closest(name, known)}")
        return tuple(idle)


def tell_idle(names: tuple[str, ...]) -> None:
    """One warning for all of them, once in a process."""
    if names and names not in _told:
        _told.add(names)
        _log.warning("accepted, but without effect here: %s", ", ".join(names))


def _refused_as_security(key: str) -> str | None:
    if key.startswith(("sasl.", "ssl.")) or key == "security.providers":
        return "connections are PLAINTEXT only (its value is not shown)"
    if key == "config.providers" or key.startswith("config.providers."):
        return "values are taken as they are given"
    return None


_CONNECTION: Final = frozenset({"bootstrap.servers", "client.id", "request.timeout.ms", "security.protocol"})

_INSIDE_ANY_CLIENT: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)

_OF_BYTES: Final = "keys and values are columns of bytes: convert them in the query"

SOURCE_KEYS: Final = ClientKeys(
    with_effect=_CONNECTION
    | {
        "default.api.timeout.ms",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "isolation.level",
        "max.partition.fetch.bytes",
    },
    without_effect=_INSIDE_ANY_CLIENT
    | {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "check.crcs",
        "client.rack",
        "exclude.internal.topics",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "internal.leave.group.on.close",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
    },
    refused={
        "auto.offset.reset": "where a query begins is said with startingOffsets (earliest or latest)",
        "enable.auto.commit": "Spark keeps the offsets; commitGroup shows them to a consumer group",
        "interceptor.classes": "interceptors are Java classes and could change rows",
        "key.deserializer": _OF_BYTES,
        "value.deserializer": _OF_BYTES,
    },
)

SINK_KEYS: Final = ClientKeys(
    with_effect=_CONNECTION
    | {
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delivery.timeout.ms",
        "enable.idempotence",
        "max.request.size",
        "partitioner.ignore.keys",
    },
    without_effect=_INSIDE_ANY_CLIENT
    | {
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "retries",
        "transaction.timeout.ms",
    },
    refused={
        "interceptor.classes": "interceptors are Java classes and could change rows",
        "key.serializer": _OF_BYTES,
        "partitioner.class": "rows with a key go where Kafka's default partitioner sends them; "
        "a column named partition says otherwise",
        "transaction.two.phase.commit.enable": "the sink ends its transactions itself",
        "transactional.id": "the sink makes its own; delivery=exactly-once and sinkId ask for transactions",
        "value.serializer": _OF_BYTES,
    },
)

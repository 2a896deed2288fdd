"""The names of all options but those of Kafka's clients, in their proper spelling, and the check that others are none.

Spark's connector passes over names that it does not know; here they are refused, for a misspelt `startingOffsets` or
`failOnDataLoss` changes what is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tailrace.spark.errors import OptionError
from tailrace.spark.options.client_keys import PREFIX, ClientKeys
from tailrace.spark.options.closest import closest

SOURCE_NAMES: Final = (
    "assign",
    "columns",
    "commitGroup",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "filterPushdown",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "partition.metadata.cache.ttl.ms",
    "path",
    "skipCorrupt",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
    "timestampDisorder",
)

SINK_NAMES: Final = (
    "acceptPartialEpoch",
    "delivery",
    "includeHeaders",
    "sinkId",
    "topic",
    "transactional",
)

SPARKS_OWN: Final = ("checkpointLocation", "queryName")
"""Spark puts them among the options of a query; it looks at them, not we."""
_SPARKS_OWN_PREFIX: Final = "__"


def check_names(names: Iterable[str], known: Iterable[str], others: Iterable[str], keys: ClientKeys, kind: str) -> None:
    """`names` in lower case. `kind` is source or sink, `others` the names of the other one."""
    here = {name.lower() for name in (*known, *SPARKS_OWN)}
    elsewhere = {name.lower(): name for name in others}
    for name in names:
        if name in here or name.startswith((PREFIX, _SPARKS_OWN_PREFIX)):
            continue
        if name in elsewhere:
            other = "sink" if kind == "source" else "source"
            raise OptionError(f"option {elsewhere[name]} is one of the {other}; the {kind} has no such option")
        if name in keys.known:
            raise OptionError(f"the {kind} has no option {name}; did you mean {PREFIX}{name}?")
        raise OptionError(f"the {kind} has no option {name}{closest(name, known)}")

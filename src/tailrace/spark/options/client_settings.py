"""How our client is to talk to brokers: the `kafka.*` keys that have an effect whoever asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.client.address import addresses
from tailrace.client.errors import BadAddressError
from tailrace.spark.options.given import MAX_INT, Given

CLIENT_ID: Final = "tailrace-spark"


@dataclass(frozen=True)
class ClientSettings:
    """Everybody who opens a `Cluster` takes these."""

    client_id: str = CLIENT_ID
    request_timeout_ms: int = 30_000
    """For one operation with all its attempts: `default.api.timeout.ms`, or else `request.timeout.ms`."""
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 << 20
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 8 << 20
    """More than Kafka's 1 MiB: a task reads one partition, and wants large answers."""

    @property
    def timeout_s(self) -> float:
        return self.request_timeout_ms / 1000


def client_settings(given: Given) -> ClientSettings:
    def whole(key: str, least: int, default: int) -> int:
        value = given.whole(f"kafka.{key}", least=least, greatest=MAX_INT)
        return default if value is None else value

    if given.text("kafka.security.protocol") not in (None, "PLAINTEXT"):
        raise given.refusal("kafka.security.protocol", "must be PLAINTEXT: connections are in the clear, and unnamed")
    usual = ClientSettings()
    return ClientSettings(
        client_id=given.text("kafka.client.id") or usual.client_id,
        request_timeout_ms=whole("default.api.timeout.ms", 1, whole("request.timeout.ms", 1, usual.request_timeout_ms)),
        fetch_min_bytes=whole("fetch.min.bytes", 0, usual.fetch_min_bytes),
        fetch_max_bytes=whole("fetch.max.bytes", 1, usual.fetch_max_bytes),
        fetch_max_wait_ms=whole("fetch.max.wait.ms", 0, usual.fetch_max_wait_ms),
        max_partition_fetch_bytes=whole("max.partition.fetch.bytes", 1, usual.max_partition_fetch_bytes),
    )


def brokers(given: Given) -> str | None:
    """`host:port,host:port`, or None where none are given."""
    name = "kafka.bootstrap.servers"
    text = given.text(name)
    if text is None:
        return None
    try:
        return ",".join(str(each) for each in addresses(text))
    except BadAddressError:
        raise given.refusal(name, "must be host:port, with commas between several") from None

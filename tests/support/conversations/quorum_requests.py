"""Requests about the metadata quorum, in the epoch of the moment; APIs and versions that a listener does not serve.

A request may end an epoch: before each the server's leader is waited for. Epochs of responses are relative to the one
of the request; offsets and the bytes of records are each server's own.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.clients.raw_client import NoAnswer, RawClient
from support.kafka.exchanges import Exchange, brief, fingerprint, fingerprint_of_frame
from support.requests.damaged_frames import sized
from support.requests.quorum import (
    METADATA,
    NOMINAL,
    SELF,
    QuorumCase,
    QuorumFacts,
    administrative_cases,
    controller_cases,
)
from support.requests.response_values import Shape, shape
from tailrace.broker.dispatch import BROKER_HANDLERS, CONTROLLER_HANDLERS
from tailrace.protocol.apis import API_VERSIONS, APIS
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData

EPOCHS = frozenset({"leader_epoch", "epoch"})
OFFSETS = frozenset(
    {
        *("high_watermark", "last_stable_offset", "log_start_offset", "log_end_offset"),
        *("end_offset", "size"),
    }
)
RECORDS = frozenset({"records", "unaligned_records"})
QUORUM_WAIT_SECONDS = 30
SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
QUORUM_SETTINGS = {"metadata.log.max.record.bytes.between.snapshots": "1"}
"""Snapshots are there from the beginning."""
KEY_AND_VERSION = struct.Struct(">hh")
HEADER_AFTER_VERSION = struct.pack(">ih", 42, -1)  # correlation id, no client id
EMPTY_BODY = bytes(64)


def quorum_facts(controller: RawClient, log_dir: str) -> QuorumFacts:
    """Waits until the server leads its quorum and has taken a snapshot."""
    cluster: Any = controller.ask(DescribeClusterRequest(endpoint_type=2), 1)
    topic = RequestTopicData(topic_name=METADATA, partitions=[RequestPartitionData(partition_index=0)])
    deadline = time.monotonic() + QUORUM_WAIT_SECONDS
    while time.monotonic() < deadline:
        described: Any = controller.ask(DescribeQuorumRequest(topics=[topic]), 2)
        if not described.error_code and not described.topics[0].partitions[0].error_code:
            quorum = described.topics[0].partitions[0]
            snapshot = _newest_snapshot(log_dir)
            if quorum.leader_id == SELF and quorum.high_watermark > 0 and snapshot > (0, 0):
                (voter,) = quorum.current_voters
                return QuorumFacts(cluster.cluster_id, bytes(voter.replica_directory_id), quorum.leader_epoch, snapshot)
        time.sleep(0.1)
    raise AssertionError("the quorum has no leader")


def _newest_snapshot(log_dir: str) -> tuple[int, int]:
    names = [path.name for path in Path(log_dir, f"{METADATA}-0").iterdir()]
    ids = [(int(found[1]), int(found[2])) for found in map(SNAPSHOT.fullmatch, names) if found]
    return max(ids, default=(0, 0))


def quorum_requests(broker: RawClient, controller: RawClient, log_dir: str) -> list[Exchange]:
    def asked(client: RawClient, listener: str, cases: Iterable[QuorumCase]) -> list[Exchange]:
        return [_asked(client, f"{listener}: {case.name}", case, quorum_facts(controller, log_dir)) for case in cases]

    return [
        *asked(broker, "broker", administrative_cases()),
        *asked(controller, "controller", administrative_cases()),
        *asked(controller, "controller", controller_cases()),
    ]


def _asked(client: RawClient, name: str, case: QuorumCase, facts: QuorumFacts) -> Exchange:
    response: Shape
    try:
        response = brief(_relative(shape(client.ask(case.request(facts), case.version)), facts.epoch))
    except NoAnswer as outcome:
        response = str(outcome)
    return Exchange(name, fingerprint((case.request(NOMINAL), case.version)), response)


def _relative(value: Shape, epoch: int, name: str = "") -> Shape:
    if isinstance(value, dict):
        return {key: _relative(each, epoch, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_relative(each, epoch, name) for each in value]
    if name in RECORDS:
        return "records" if value else value
    if name in OFFSETS and value > 0:
        return "an offset"
    if name in EPOCHS and value > 0:
        return f"epoch {value - epoch:+d}" if value >= epoch else "an earlier epoch"
    return value


# -- what a listener does not serve ------------------------------------------------------------------------------------


def unserved_apis(broker: RawClient, controller: RawClient) -> list[Exchange]:
    """Every API that only the other listener serves, in its first version."""
    return [
        *_sent(
            broker, "broker", [(key, APIS[key].first_version) for key in CONTROLLER_HANDLERS.keys() - BROKER_HANDLERS]
        ),
        *_sent(
            controller,
            "controller",
            [(key, APIS[key].first_version) for key in BROKER_HANDLERS.keys() - CONTROLLER_HANDLERS],
        ),
    ]


def unsupported_versions(broker: RawClient, controller: RawClient) -> list[Exchange]:
    """Every API that a listener serves, in the versions below and above those that there are."""

    def versions(served: Iterable[int]) -> list[tuple[int, int]]:
        apis = [APIS[key] for key in served if key != API_VERSIONS]
        return [(api.key, version) for api in apis for version in (api.first_version - 1, api.last_version + 1)]

    return [
        *_sent(broker, "broker", versions(BROKER_HANDLERS)),
        *_sent(controller, "controller", versions(CONTROLLER_HANDLERS)),
    ]


def _sent(client: RawClient, listener: str, keys_and_versions: Iterable[tuple[int, int]]) -> list[Exchange]:
    """With an empty body: a listener looks at key and version first."""
    found = []
    for key, version in sorted(keys_and_versions):
        frame = sized(KEY_AND_VERSION.pack(key, version) + HEADER_AFTER_VERSION + EMPTY_BODY)
        try:
            response = client.exchange(frame).hex()
        except NoAnswer as outcome:
            response = str(outcome)
        found.append(Exchange(f"{listener}: {APIS[key].name} v{version}", fingerprint_of_frame(frame), response))
    return found

"""Where an answer of ours is meant to differ from Kafka's, and why: docs/compatibility.md says the same to users."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from support.requests.response_values import Difference


class Known(NamedTuple):
    """`case` and `path` are patterns for the whole name of a case and of a field."""

    case: str
    path: str
    section: str
    """Of docs/compatibility.md."""

    def covers(self, case: str, difference: Difference) -> bool:
        return bool(re.fullmatch(self.case, case) and re.fullmatch(self.path, difference.path))


PARTITION_ANSWER = r"responses\.partition_responses\..*"

KNOWN_DIFFERENCES: tuple[Known, ...] = (
    Known(
        r"(controller: )?ApiVersions .*|(broker|controller): list the features, v\d", r"api_keys", "What is advertised"
    ),
    Known(
        r"controller: AssignReplicasToDirs .* twice",
        r"directories\.topics\.partitions\.error_code",
        "Directories of replicas",
    ),
    Known(r"(controller: )?ApiVersions v[34] .*", r"finalized_features", "The quorum"),
    Known(r"DescribeTopicPartitions v0 without a name", r"topics\..*", "One bad topic name"),
    Known(r"Fetch .* isolation (2|-1)", r"(responses\.partitions\.)?error_code", "Server errors"),
    Known(r"Fetch .* negative bytes", r"responses\.partitions\..*", "Negative sizes"),
    Known(r"IncrementalAlterConfigs .* unknown operation", r"responses\.error_code", "Server errors"),
    Known(
        r"(controller: )?(Envelope v0 of )?DescribeQuorum .* the quorum.*",
        r"(response_data\.response\.)?topics\.partitions\.(leader_epoch|high_watermark|current_voters\.(log_end_offset|replica_directory_id))",
        "The quorum",
    ),
    Known(
        r"controller: (pre-)?vote in a future epoch, v\d",
        r"topics\.partitions\.(error_code|leader_id|leader_epoch)|node_endpoints",
        "The quorum",
    ),
    Known(r"controller: update a voter of another cluster, v0", r"current_leader", "The quorum"),
    Known(
        r"controller: fetch a snapshot (of the bootstrap|that is not .*|below zero|from .*|about .*|in .* epoch), v\d",
        r"error_code|topics(\..*)?|node_endpoints",
        "Server errors",
    ),
    Known(r"replaced: .*", r"topics|responses\.partitions\.error_(code|message)", "Reassignments that are replaced"),
    Known(r"reassigned twice", r"responses\.partitions\.error_(code|message)", "Reassignments that are replaced"),
    Known(r"recovery state .*", r"error_code|topics", "Server errors"),
    Known(
        r"a (controller|broker) with (an unknown protocol|a listener (without|with port) .*)",
        r"error_code",
        "Server errors",
    ),
    Known(r"registered as broker -1|broker -1 unregistered", r"error_code|broker_epoch", "Registration of brokers"),
    Known(r"Produce .* (with an unknown codec|\w+ of garbage)", PARTITION_ANSWER, "Server errors"),
    Known(r"Produce .* stamped by a broker", PARTITION_ANSWER, "Batches that a producer cannot mean"),
    Known(r"Produce .* of a producer without an epoch", PARTITION_ANSWER, "Batches that a producer cannot mean"),
    Known(r"CreatePartitions v3 the most", r"results\.error_.*", "Server errors"),
    Known(
        r"(Incremental)?AlterConfigs .*, with (a tag twice|tags in disorder)", r"responses\.error_code", "Server errors"
    ),
    Known(
        r"controller: (Incremental)?AlterConfigs .*", r"responses(\.error_.*)?", "Settings on the controller's listener"
    ),
    Known(
        r"deleted_records: offset without .* at -3",
        r"topics\.partitions\.(timestamp|offset|leader_epoch)",
        "The newest timestamp of a log",
    ),
    Known(
        r"names_of_any_length: 'xxx'\*32767 (described.*|beaten)",
        r"(groups\.)?(error_code|group_state)",
        "Server errors",
    ),
    Known(
        r"streams_fencing: epoch \d, having nothing|late_members: a holds on",
        r"(active|standby|warmup)_tasks",
        "Streams groups",
    ),
    Known(r"topologies_that_nobody_has: .*", r"error_code", "Server errors"),
    Known(
        r"group_without_a_name: two described|(Consumer|Share|Streams)GroupDescribe .* twice",
        r"groups",
        "Groups that are named twice",
    ),
    Known(r"DescribeTransactions .* twice", r"transaction_states", "Groups that are named twice"),
    Known(r".*, with a client id of length -2", r"", "Lengths below −1"),
)


def unexpected(case: str, found: Iterable[Difference], seen: set[Known]) -> list[Difference]:
    """The differences that nobody has explained; the others are noted in `seen`."""
    left = []
    for difference in found:
        covering = [known for known in KNOWN_DIFFERENCES if known.covers(case, difference)]
        seen.update(covering)
        if not covering:
            left.append(difference)
    return left

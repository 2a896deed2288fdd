"""Requests, good and bad, for every API and version that a broker serves: what both servers are asked in turn.

They are made for a server: ids of topics and directories are its own. The order matters, for some change things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from support.requests.brokers import (
    allocate_producer_ids,
    alter_partition,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
)
from support.requests.case import Case, ServerFacts
from support.requests.classic_groups import classic_members, groups_from_outside
from support.requests.cluster import acls, describe_quorum, elect_leaders, unregister_broker, update_features
from support.requests.configs import alter_configs, describe_configs, incremental_alter_configs, list_config_resources
from support.requests.consumer_groups import consumer_groups, no_coordinators
from support.requests.envelopes import envelopes
from support.requests.logs import (
    delete_records,
    describe_producers,
    init_producer_id,
    list_offsets,
    log_dirs,
    offset_for_leader_epoch,
)
from support.requests.offsets import offsets_of_groups
from support.requests.reassignments import alter_partition_reassignments, list_partition_reassignments
from support.requests.records import api_versions, fetch, produce
from support.requests.share_groups import share_fetches, share_members, share_offsets, share_states
from support.requests.streams_groups import streams_groups
from support.requests.topics import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_topic_partitions,
    metadata,
)
from support.requests.transactions import marked_transactions, unknown_transactions
from tailrace.protocol.apis import api_of

GROUPS: tuple[Callable[[ServerFacts], Iterator[Case]], ...] = (
    api_versions,
    classic_members,
    groups_from_outside,
    offsets_of_groups,
    consumer_groups,
    no_coordinators,
    share_members,
    share_fetches,
    share_states,
    share_offsets,
    streams_groups,
    metadata,
    describe_topic_partitions,
    describe_cluster,
    list_offsets,
    offset_for_leader_epoch,
    fetch,
    init_producer_id,
    unknown_transactions,
    marked_transactions,
    describe_producers,
    log_dirs,
    delete_records,
    produce,
    describe_configs,
    alter_configs,
    incremental_alter_configs,
    list_config_resources,
    create_topics,
    create_partitions,
    elect_leaders,
    describe_quorum,
    acls,
    update_features,
    alter_partition_reassignments,
    list_partition_reassignments,
    alter_partition,
    assign_replicas_to_dirs,
    broker_registration,
    broker_heartbeat,
    allocate_producer_ids,
    controller_registration,
    unregister_broker,
    delete_topics,
    envelopes,
)


def all_cases(facts: ServerFacts) -> Iterator[Case]:
    for group in GROUPS:
        for case in group(facts):
            api = api_of(case.request.KEY)
            yield case._replace(name=f"{api.name} v{case.version} {case.name}")

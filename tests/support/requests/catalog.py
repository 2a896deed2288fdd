"""Requests, good and bad, for every API and version that a broker serves: what both servers are asked in turn.

They are made for a server: ids of topics and directories are its own. The order matters, for some change things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from support.requests.case import Case, Place
from support.requests.classic_groups import classic_members, groups_from_outside
from support.requests.cluster import acls, describe_quorum, elect_leaders, unregister_broker, update_features
from support.requests.configs import alter_configs, describe_configs, incremental_alter_configs, list_config_resources
from support.requests.consumer_groups import consumer_groups, no_coordinators
from support.requests.logs import (
    delete_records,
    describe_producers,
    init_producer_id,
    list_offsets,
    log_dirs,
    offset_for_leader_epoch,
)
from support.requests.offsets import offsets_of_groups
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

GROUPS: tuple[Callable[[Place], Iterator[Case]], ...] = (
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
    unregister_broker,
    delete_topics,
)


def all_cases(place: Place) -> Iterator[Case]:
    for group in GROUPS:
        for case in group(place):
            api = api_of(case.request.KEY)
            yield case._replace(name=f"{api.name} v{case.version} {case.name}")

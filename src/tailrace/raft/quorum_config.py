"""What the settings of a node (`controller.quorum.*`) are for the core."""

from __future__ import annotations

from typing import Final

from tailrace.config.quorum import QuorumConfig
from tailrace.config.voters import Address
from tailrace.raft.consensus import ConsensusConfig
from tailrace.raft.voters import QuorumEndpoint, QuorumNode, Voter

DEFAULT_LISTENER_NAME: Final = "CONTROLLER"
"""Of a node without controller listeners, as its settings or its endpoints name them."""


def listener_name(config: QuorumConfig, node: QuorumNode) -> str:
    """The controller listener on which voters reach each other: the first one."""
    if config.controller_listener_names:
        return config.controller_listener_names[0]
    return node.endpoints[0].name if node.endpoints else DEFAULT_LISTENER_NAME


def consensus_config(config: QuorumConfig, node: QuorumNode, *, is_alone: bool) -> ConsensusConfig:
    name = listener_name(config, node)
    servers = config.controller_quorum_bootstrap_servers
    if not servers:
        servers = tuple(voter.address for voter in config.controller_quorum_voters if voter.id != node.node_id)
    return ConsensusConfig(
        static_voters=(_own_voter(node),) if is_alone else static_voters(config, node),
        bootstrap=tuple(_endpoint(name, server) for server in servers),
        listener_name=name,
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        has_fast_election=config.controller_quorum_fast_election_enable,
        is_auto_join_enabled=config.controller_quorum_auto_join_enable,
        can_become_voter=not config.process_roles or "controller" in config.process_roles,
    )


def static_voters(config: QuorumConfig, node: QuorumNode) -> tuple[Voter, ...]:
    """The configured voters. A node that is to find others has none; one without any settings is alone."""
    if not config.controller_quorum_voters:
        is_alone = not config.controller_quorum_bootstrap_servers
        return (_own_voter(node),) if is_alone else ()
    name = listener_name(config, node)
    return tuple(
        Voter(
            voter.id,
            endpoints=node.endpoints
            if voter.id == node.node_id and node.endpoints
            else (_endpoint(name, voter.address),),
        )
        for voter in config.controller_quorum_voters
    )


def _own_voter(node: QuorumNode) -> Voter:
    return Voter(node.node_id, endpoints=node.endpoints)


def _endpoint(name: str, address: Address) -> QuorumEndpoint:
    return QuorumEndpoint(name, address.host, address.port)

"""The controllers of a cluster, reached by their controller listeners: the way of an administrator without brokers.

The controllers are learned with DescribeCluster. Requests go to the active controller. It is looked up again after
every attempt of `retry` that failed.

One thread.
"""

from __future__ import annotations

from typing import Final

from tailrace.client.address import Address
from tailrace.client.caller import NO_LEADER, Broker, Caller
from tailrace.client.connection import Connection
from tailrace.client.errors import (
    MISMATCHED_ENDPOINT_TYPE,
    NONE,
    BrokerUnreachableError,
    NoActiveControllerError,
    NotAControllerError,
    error_of,
)
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

CONTROLLERS: Final = 2
"""The endpoint type of DescribeCluster."""


class Controllers(Caller):
    def learn_nodes(self) -> None:
        """See Caller."""
        connection = self._reachable()
        request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        response: DescribeClusterResponse = connection.call(request, self.timeout_s)
        if response.error_code == MISMATCHED_ENDPOINT_TYPE:
            raise NotAControllerError(f"{connection.address} is a listener of a broker, not of a controller")
        if response.error_code != NONE:
            raise error_of(response.error_code, response.error_message)
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            each.broker_id: Broker(each.broker_id, Address(each.host, each.port), None) for each in response.brokers
        }

    def any_connection(self) -> Connection:
        """To the active controller."""
        if self.controller_id == NO_LEADER:
            self.learn_nodes()
        if self.controller_id == NO_LEADER:
            raise NoActiveControllerError("the metadata quorum has no leader")
        try:
            return self.connection(self.controller_id)
        except BrokerUnreachableError as error:
            text = str(error).replace("no broker", f"the active controller, node {self.controller_id}, is not")
            raise NoActiveControllerError(text) from error

    def accepting(self) -> dict[int, bool]:
        """Whether each known controller accepts connections, by node id."""
        found = {}
        for node_id in sorted(self.brokers):
            try:
                self.connection(node_id)
            except TailraceError:
                found[node_id] = False
            else:
                found[node_id] = True
        return found

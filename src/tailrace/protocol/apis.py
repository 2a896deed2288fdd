"""The APIs there are, as Kafka 4.3.1 has them: key, name, versions, flexible versions, listeners that serve them.

What a server advertises is made from this table and from what it has handlers for; what it dispatches is looked up
here. The messages themselves are loaded when an API is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from tailrace.model.errors import InvalidRequestError
from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import MAX_VERSION, version_range

BROKER: Final = frozenset({"broker"})
CONTROLLER: Final = frozenset({"controller"})
BOTH: Final = BROKER | CONTROLLER

PRODUCE: Final = 0
FETCH: Final = 1
OFFSET_COMMIT: Final = 8
API_VERSIONS: Final = 18
NEVER: Final = MAX_VERSION + 1
FORWARDABLE: Final = frozenset({19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 67, 80, 81})
"""Keys of the requests that a broker may forward to the active controller in an Envelope."""


class Api:
    """`latest_is_unstable`: the last version may still change; it exists, but is advertised only where asked for."""

    def __init__(
        self,
        key: int,
        name: str,
        versions: str,
        flexible: str,
        listeners: frozenset[str],
        *,
        latest_is_unstable: bool = False,
    ) -> None:
        bounds, flexible_bounds = version_range(versions), version_range(flexible)
        assert bounds is not None
        self.key = key
        self.name = name
        self.first_version, self.last_version = bounds
        self.flexible_from = flexible_bounds[0] if flexible_bounds else NEVER
        self.listeners = listeners
        self.latest_is_unstable = latest_is_unstable
        self._messages: tuple[type[Request], type[Response]] | None = None

    @property
    def last_stable_version(self) -> int:
        return self.last_version - self.latest_is_unstable

    @property
    def request(self) -> type[Request]:
        return (self._messages or self._load())[0]

    @property
    def response(self) -> type[Response]:
        return (self._messages or self._load())[1]

    def has_version(self, version: int) -> bool:
        return self.first_version <= version <= self.last_version

    def request_header_version(self, version: int) -> int:
        """Also for versions that do not exist: their header is read, to answer by its correlation id."""
        return 2 if version >= self.flexible_from else 1

    def response_header_version(self, version: int) -> int:
        """Always 0 for ApiVersions: its client does not know yet whether the server has heard of version 1."""
        return 1 if version >= self.flexible_from and self.key != API_VERSIONS else 0

    def _load(self) -> tuple[type[Request], type[Response]]:
        words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in self.name)
        module = import_module(f"tailrace.protocol.messages.{words.lstrip('_')}")
        self._messages = getattr(module, f"{self.name}Request"), getattr(module, f"{self.name}Response")
        return self._messages

    def __repr__(self) -> str:
        return f"Api({self.key}, {self.name}, {self.first_version}-{self.last_version})"


def api_of(key: int) -> Api:
    """Raises InvalidRequestError for a key that no API has."""
    api = APIS.get(key)
    if api is None:
        raise InvalidRequestError(f"there is no API with key {key}")
    return api


_TABLE: Final = (
    Api(0, "Produce", "3-13", "9+", BROKER),
    Api(1, "Fetch", "4-18", "12+", BOTH),
    Api(2, "ListOffsets", "1-11", "6+", BROKER),
    Api(3, "Metadata", "0-13", "9+", BROKER),
    Api(8, "OffsetCommit", "2-10", "8+", BROKER),
    Api(9, "OffsetFetch", "1-10", "6+", BROKER),
    Api(10, "FindCoordinator", "0-6", "3+", BROKER),
    Api(11, "JoinGroup", "0-9", "6+", BROKER),
    Api(12, "Heartbeat", "0-4", "4+", BROKER),
    Api(13, "LeaveGroup", "0-5", "4+", BROKER),
    Api(14, "SyncGroup", "0-5", "4+", BROKER),
    Api(15, "DescribeGroups", "0-6", "5+", BROKER),
    Api(16, "ListGroups", "0-5", "3+", BROKER),
    Api(17, "SaslHandshake", "0-1", "", BOTH),
    Api(18, "ApiVersions", "0-4", "3+", BOTH),
    Api(19, "CreateTopics", "2-7", "5+", BOTH),
    Api(20, "DeleteTopics", "1-6", "4+", BOTH),
    Api(21, "DeleteRecords", "0-2", "2+", BROKER),
    Api(22, "InitProducerId", "0-6", "2+", BROKER, latest_is_unstable=True),
    Api(23, "OffsetForLeaderEpoch", "2-4", "4+", BROKER),
    Api(24, "AddPartitionsToTxn", "0-5", "3+", BROKER),
    Api(25, "AddOffsetsToTxn", "0-4", "3+", BROKER),
    Api(26, "EndTxn", "0-5", "3+", BROKER),
    Api(27, "WriteTxnMarkers", "1-2", "1+", BROKER),
    Api(28, "TxnOffsetCommit", "0-5", "3+", BROKER),
    Api(29, "DescribeAcls", "1-3", "2+", BOTH),
    Api(30, "CreateAcls", "1-3", "2+", BOTH),
    Api(31, "DeleteAcls", "1-3", "2+", BOTH),
    Api(32, "DescribeConfigs", "1-4", "4+", BOTH),
    Api(33, "AlterConfigs", "0-2", "2+", BOTH),
    Api(34, "AlterReplicaLogDirs", "1-2", "2+", BROKER),
    Api(35, "DescribeLogDirs", "1-5", "2+", BROKER),
    Api(36, "SaslAuthenticate", "0-2", "2+", BOTH),
    Api(37, "CreatePartitions", "0-3", "2+", BOTH),
    Api(38, "CreateDelegationToken", "1-3", "2+", BOTH),
    Api(39, "RenewDelegationToken", "1-2", "2+", BOTH),
    Api(40, "ExpireDelegationToken", "1-2", "2+", BOTH),
    Api(41, "DescribeDelegationToken", "1-3", "2+", BOTH),
    Api(42, "DeleteGroups", "0-2", "2+", BROKER),
    Api(43, "ElectLeaders", "0-2", "2+", BOTH),
    Api(44, "IncrementalAlterConfigs", "0-1", "1+", BOTH),
    Api(45, "AlterPartitionReassignments", "0-1", "0+", BOTH),
    Api(46, "ListPartitionReassignments", "0", "0+", BOTH),
    Api(47, "OffsetDelete", "0", "", BROKER),
    Api(48, "DescribeClientQuotas", "0-1", "1+", BROKER),
    Api(49, "AlterClientQuotas", "0-1", "1+", BOTH),
    Api(50, "DescribeUserScramCredentials", "0", "0+", BOTH),
    Api(51, "AlterUserScramCredentials", "0", "0+", BOTH),
    Api(52, "Vote", "0-2", "0+", CONTROLLER),
    Api(53, "BeginQuorumEpoch", "0-1", "1+", CONTROLLER),
    Api(54, "EndQuorumEpoch", "0-1", "1+", CONTROLLER),
    Api(55, "DescribeQuorum", "0-2", "0+", BOTH),
    Api(56, "AlterPartition", "2-3", "0+", CONTROLLER),
    Api(57, "UpdateFeatures", "0-2", "0+", BOTH),
    Api(58, "Envelope", "0", "0+", CONTROLLER),
    Api(59, "FetchSnapshot", "0-1", "0+", CONTROLLER),
    Api(60, "DescribeCluster", "0-2", "0+", BOTH),
    Api(61, "DescribeProducers", "0", "0+", BROKER),
    Api(62, "BrokerRegistration", "0-4", "0+", CONTROLLER),
    Api(63, "BrokerHeartbeat", "0-2", "0+", CONTROLLER),
    Api(64, "UnregisterBroker", "0", "0+", BOTH),
    Api(65, "DescribeTransactions", "0", "0+", BROKER),
    Api(66, "ListTransactions", "0-2", "0+", BROKER),
    Api(67, "AllocateProducerIds", "0", "0+", CONTROLLER),
    Api(68, "ConsumerGroupHeartbeat", "0-1", "0+", BROKER),
    Api(69, "ConsumerGroupDescribe", "0-1", "0+", BROKER),
    Api(70, "ControllerRegistration", "0", "0+", CONTROLLER),
    Api(71, "GetTelemetrySubscriptions", "0", "0+", BROKER),
    Api(72, "PushTelemetry", "0", "0+", BROKER),
    Api(73, "AssignReplicasToDirs", "0", "0+", CONTROLLER),
    Api(74, "ListConfigResources", "0-1", "0+", BROKER),
    Api(75, "DescribeTopicPartitions", "0", "0+", BROKER),
    Api(76, "ShareGroupHeartbeat", "1", "0+", BROKER),
    Api(77, "ShareGroupDescribe", "1", "0+", BROKER),
    Api(78, "ShareFetch", "1-2", "0+", BROKER),
    Api(79, "ShareAcknowledge", "1-2", "0+", BROKER),
    Api(80, "AddRaftVoter", "0-1", "0+", BOTH),
    Api(81, "RemoveRaftVoter", "0", "0+", BOTH),
    Api(82, "UpdateRaftVoter", "0", "0+", CONTROLLER),
    Api(83, "InitializeShareGroupState", "0", "0+", BROKER),
    Api(84, "ReadShareGroupState", "0", "0+", BROKER),
    Api(85, "WriteShareGroupState", "0-1", "0+", BROKER),
    Api(86, "DeleteShareGroupState", "0", "0+", BROKER),
    Api(87, "ReadShareGroupStateSummary", "0-1", "0+", BROKER),
    Api(88, "StreamsGroupHeartbeat", "0", "0+", BROKER),
    Api(89, "StreamsGroupDescribe", "0", "0+", BROKER),
    Api(90, "DescribeShareGroupOffsets", "0-1", "0+", BROKER),
    Api(91, "AlterShareGroupOffsets", "0", "0+", BROKER),
    Api(92, "DeleteShareGroupOffsets", "0", "0+", BROKER),
)

APIS: Final = {api.key: api for api in _TABLE}

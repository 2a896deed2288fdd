"""Errors of talking to a broker, and a broker's error codes as exceptions.

    ClientError
    ├── BadAddressError          a text that is no HOST:PORT
    ├── NotAControllerError      the address is that of a broker listener
    ├── NotABrokerError          the address is that of a controller listener
    ├── BrokerUnreachableError   nobody answers there
    ├── NoActiveControllerError  the metadata quorum has no leader, or it cannot be reached
    ├── ConnectionLostError      the broker closed, or said what no broker says: what was under way may have happened
    ├── NoAnswerError            the time given is over
    └── DeliveryError            a batch could not be delivered; its cause says why

`error_of(code)` is an instance of the class in `tailrace.model.errors` that has the code. For a code that has no class
there, or several, one is created with Kafka's name. Whether trying again can help is Kafka's judgement in both cases.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from tailrace.model import errors
from tailrace.model.errors import InvalidDataError, TailraceError

NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
REQUEST_TIMED_OUT: Final = 7
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
UNKNOWN_MEMBER_ID: Final = 25
REBALANCE_IN_PROGRESS: Final = 27
UNSUPPORTED_VERSION: Final = 35
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_CONFIG: Final = 40
INVALID_REQUEST: Final = 42
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
DUPLICATE_SEQUENCE_NUMBER: Final = 46
INVALID_PRODUCER_EPOCH: Final = 47
UNKNOWN_PRODUCER_ID: Final = 59
NON_EMPTY_GROUP: Final = 68
GROUP_ID_NOT_FOUND: Final = 69
GROUP_SUBSCRIBED_TO_TOPIC: Final = 86
PRODUCER_FENCED: Final = 90
UNKNOWN_TOPIC_ID: Final = 100
BROKER_ID_NOT_REGISTERED: Final = 102
TRANSACTIONAL_ID_NOT_FOUND: Final = 105
FENCED_MEMBER_EPOCH: Final = 110
STALE_MEMBER_EPOCH: Final = 113
MISMATCHED_ENDPOINT_TYPE: Final = 114
TRANSACTION_ABORTABLE: Final = 120
DUPLICATE_VOTER: Final = 126
VOTER_NOT_FOUND: Final = 127

# Kafka 4.3.1's names from code 1 on; a star: trying again may help.
_NAMES: Final = """
    OFFSET_OUT_OF_RANGE CORRUPT_MESSAGE* UNKNOWN_TOPIC_OR_PARTITION* INVALID_FETCH_SIZE LEADER_NOT_AVAILABLE*
    NOT_LEADER_OR_FOLLOWER* REQUEST_TIMED_OUT* BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE* MESSAGE_TOO_LARGE
    STALE_CONTROLLER_EPOCH OFFSET_METADATA_TOO_LARGE NETWORK_EXCEPTION* COORDINATOR_LOAD_IN_PROGRESS*
    COORDINATOR_NOT_AVAILABLE* NOT_COORDINATOR* INVALID_TOPIC_EXCEPTION RECORD_LIST_TOO_LARGE NOT_ENOUGH_REPLICAS*
    NOT_ENOUGH_REPLICAS_AFTER_APPEND* INVALID_REQUIRED_ACKS ILLEGAL_GENERATION INCONSISTENT_GROUP_PROTOCOL
    INVALID_GROUP_ID UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT REBALANCE_IN_PROGRESS INVALID_COMMIT_OFFSET_SIZE
    TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED INVALID_TIMESTAMP
    UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE UNSUPPORTED_VERSION TOPIC_ALREADY_EXISTS INVALID_PARTITIONS
    INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG NOT_CONTROLLER* INVALID_REQUEST
    UNSUPPORTED_FOR_MESSAGE_FORMAT POLICY_VIOLATION OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER
    INVALID_PRODUCER_EPOCH INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING INVALID_TRANSACTION_TIMEOUT
    CONCURRENT_TRANSACTIONS* TRANSACTION_COORDINATOR_FENCED TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    SECURITY_DISABLED OPERATION_NOT_ATTEMPTED KAFKA_STORAGE_ERROR* LOG_DIR_NOT_FOUND SASL_AUTHENTICATION_FAILED
    UNKNOWN_PRODUCER_ID REASSIGNMENT_IN_PROGRESS DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_NOT_FOUND
    DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_AUTHORIZATION_FAILED
    DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND FETCH_SESSION_ID_NOT_FOUND*
    INVALID_FETCH_SESSION_EPOCH* LISTENER_NOT_FOUND* TOPIC_DELETION_DISABLED FENCED_LEADER_EPOCH*
    UNKNOWN_LEADER_EPOCH* UNSUPPORTED_COMPRESSION_TYPE STALE_BROKER_EPOCH OFFSET_NOT_AVAILABLE* MEMBER_ID_REQUIRED
    PREFERRED_LEADER_NOT_AVAILABLE* GROUP_MAX_SIZE_REACHED FENCED_INSTANCE_ID ELIGIBLE_LEADERS_NOT_AVAILABLE*
    ELECTION_NOT_NEEDED* NO_REASSIGNMENT_IN_PROGRESS GROUP_SUBSCRIBED_TO_TOPIC INVALID_RECORD
    UNSTABLE_OFFSET_COMMIT* THROTTLING_QUOTA_EXCEEDED* PRODUCER_FENCED RESOURCE_NOT_FOUND DUPLICATE_RESOURCE
    UNACCEPTABLE_CREDENTIAL INCONSISTENT_VOTER_SET INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED
    PRINCIPAL_DESERIALIZATION_FAILURE SNAPSHOT_NOT_FOUND POSITION_OUT_OF_RANGE UNKNOWN_TOPIC_ID*
    DUPLICATE_BROKER_REGISTRATION BROKER_ID_NOT_REGISTERED INCONSISTENT_TOPIC_ID* INCONSISTENT_CLUSTER_ID
    TRANSACTIONAL_ID_NOT_FOUND FETCH_SESSION_TOPIC_ID_ERROR* INELIGIBLE_REPLICA NEW_LEADER_ELECTED
    OFFSET_MOVED_TO_TIERED_STORAGE FENCED_MEMBER_EPOCH UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR
    STALE_MEMBER_EPOCH MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE UNKNOWN_CONTROLLER_ID
    UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE INVALID_REGISTRATION TRANSACTION_ABORTABLE INVALID_RECORD_STATE
    SHARE_SESSION_NOT_FOUND* INVALID_SHARE_SESSION_EPOCH* FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER
    VOTER_NOT_FOUND INVALID_REGULAR_EXPRESSION REBOOTSTRAP_REQUIRED STREAMS_INVALID_TOPOLOGY
    STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED SHARE_SESSION_LIMIT_REACHED*
"""
_BY_CODE: Final = {
    -1: ("UNKNOWN_SERVER_ERROR", False),
    **{code: (name.rstrip("*"), name.endswith("*")) for code, name in enumerate(_NAMES.split(), 1)},
}

# Codes that brokers use for several reasons, while a class in `tailrace.model.errors` has the hint for only one.
_HINTS: Final = {
    -1: "look into the broker's log",
    INVALID_REQUEST: "",
    95: "",
    BROKER_ID_NOT_REGISTERED: "`tailrace cluster describe` lists the brokers",
    56: "look into the broker's log: its disk may be full or damaged",
}


class ClientError(TailraceError):
    pass


class BadAddressError(ClientError):
    hint = "write HOST:PORT, several with commas between them: localhost:9092"


class NotAControllerError(ClientError):
    hint = "pass addresses of brokers with --bootstrap, and those of controller listeners with --bootstrap-controller"


class NotABrokerError(ClientError):
    hint = NotAControllerError.hint


class BrokerUnreachableError(ClientError):
    retriable = True
    hint = "check the address, and that a broker runs there"


class NoActiveControllerError(ClientError):
    code = LEADER_NOT_AVAILABLE
    retriable = True
    hint = "a majority of the controllers must run and reach each other: start them, and look into their logs"


class ConnectionLostError(ClientError):
    retriable = True
    hint = "look into the broker's log; what was under way may have been done"


class NoAnswerError(ClientError):
    hint = "the broker may be overloaded, short of replicas, or without an active controller; give it more time"


class DeliveryError(ClientError):
    hint = "this batch and those behind it were not acknowledged; a new producer may send them again"


def error_of(code: int, message: str | None = None) -> TailraceError:
    """The exception for a broker's error code; without a `message` it says the code's name."""
    return class_of(code)(message or name_of(code))


def refusal(code: int, doing: str, message: str | None = None) -> TailraceError:
    """What was asked for, and why it was refused: in the broker's words, or by the code's name."""
    return error_of(code, f"{doing}: {message or name_of(code)}")


def name_of(code: int) -> str:
    """As Kafka spells it: `NOT_LEADER_OR_FOLLOWER`."""
    return _BY_CODE.get(code, (f"ERROR_{code}",))[0]


def is_retriable(code: int) -> bool:
    return code in _BY_CODE and _BY_CODE[code][1]


@cache
def class_of(code: int) -> type[TailraceError]:
    takes_a_message = (Exception.__init__, InvalidDataError.__init__)
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TailraceError)]
    for kind in kinds:
        if kind.code == code and code not in _HINTS and kind.__init__ in takes_a_message:
            return kind
    name = "".join(word.capitalize() for word in name_of(code).removesuffix("_ERROR").split("_"))
    body = {"code": code, "retriable": is_retriable(code), "hint": _HINTS.get(code, "")}
    return type(f"{name}Error", (TailraceError,), body)

"""Settings: described, altered, listed."""

from __future__ import annotations

from collections.abc import Iterator

from support.requests.case import DATA, UNUSUAL_NAMES, Case, ServerFacts, label, versions
from tailrace.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from tailrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tailrace.protocol.messages.incremental_alter_configs import AlterableConfig as Change
from tailrace.protocol.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from tailrace.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tailrace.protocol.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
MIN_ISR = "min.insync.replicas"
"""A dynamic default of all brokers in a cluster with eligible leader replicas."""
RESOURCES = (
    (TOPIC, DATA),
    *((TOPIC, name) for name in UNUSUAL_NAMES),
    (BROKER, "1"),
    (BROKER, ""),
    (BROKER, "7"),
    (BROKER, "one"),
    (BROKER, "-1"),
    (BROKER_LOGGER, "1"),
    (BROKER_LOGGER, ""),
    (BROKER_LOGGER, "7"),
    (0, "x"),
    (1, "x"),
    (3, "x"),
    (99, "x"),
)


def describe_configs(facts: ServerFacts) -> Iterator[Case]:
    for version in versions(DescribeConfigsRequest):
        for kind, name in RESOURCES:
            some = DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=["retention.ms", "no.such.key"]
            )
            yield Case(f"{kind} {label(name)}", DescribeConfigsRequest(resources=[some]), version)
        whole = DescribeConfigsResource(resource_type=TOPIC, resource_name=DATA, configuration_keys=None)
        yield Case("all keys", DescribeConfigsRequest(resources=[whole], include_synonyms=True), version)
        for kind, name in ((TOPIC, DATA), (BROKER, "1"), (BROKER, "")):
            minimum = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[MIN_ISR])
            yield Case(f"{MIN_ISR} of {kind} {name!r}", DescribeConfigsRequest(resources=[minimum]), version)
            known = DescribeConfigsRequest(resources=[minimum], include_synonyms=True)
            yield Case(f"{MIN_ISR} of {kind} {name!r}, with synonyms", known, version)
        yield Case("twice", DescribeConfigsRequest(resources=[whole, whole]), version)
        yield Case("nothing", DescribeConfigsRequest(), version)


VALUES: tuple[tuple[str, str | None], ...] = (
    ("retention.ms", "100000000"),
    ("retention.ms", "soon"),
    ("retention.ms", "-2"),
    ("retention.ms", None),
    ("cleanup.policy", "shred"),
    ("cleanup.policy", "delete,"),
    ("cleanup.policy", ",compact"),
    ("cleanup.policy", ""),
    ("segment.bytes", "1"),
    ("no.such.key", "1"),
    ("", "1"),
    ("compression.type", "zstd"),
    ("min.insync.replicas", "0"),
)
BROKER_VALUES: tuple[tuple[str, str | None], ...] = (
    ("log.retention.ms", "100000000"),
    ("log.retention.ms", "soon"),
    ("log.cleaner.threads", "2"),
    ("log.cleaner.threads", "100"),
    ("log.cleanup.policy", "delete,"),
    ("log.dirs", "/elsewhere"),
    ("node.id", "9"),
    ("no.such.key", "1"),
    ("num.io.threads", "9"),
    ("message.max.bytes", None),
)


def alter_configs(facts: ServerFacts) -> Iterator[Case]:
    def of(kind: int, name: str, *values: tuple[str, str | None], dry: bool = True) -> AlterConfigsRequest:
        configs = [AlterableConfig(name=key, value=value) for key, value in values]
        changed = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        return AlterConfigsRequest(resources=[changed], validate_only=dry)

    for version in versions(AlterConfigsRequest):
        for key, value in VALUES:
            yield Case(f"{key}={value}", of(TOPIC, DATA, (key, value)), version)
        for key, value in BROKER_VALUES:
            yield Case(f"broker {key}={value}", of(BROKER, "1", (key, value)), version)
        for kind, name in RESOURCES:
            yield Case(f"{kind} {label(name)}", of(kind, name, ("retention.ms", "100000000")), version)
        for name, value in (("1", "1"), ("", "2"), ("", "0"), ("", None)):
            yield Case(f"broker {name!r} {MIN_ISR}={value}", of(BROKER, name, (MIN_ISR, value)), version)
        yield Case(f"broker '1' without {MIN_ISR}", of(BROKER, "1"), version)
        yield Case(f"all brokers without {MIN_ISR}", of(BROKER, ""), version)
        yield Case("key twice", of(TOPIC, DATA, ("retention.ms", "1"), ("retention.ms", "2")), version)
        yield Case("for good", of(TOPIC, DATA, ("retention.ms", "100000000"), dry=False), version)
        yield Case("back", of(TOPIC, DATA, dry=False), version)
        yield Case("nothing", AlterConfigsRequest(), version)


def incremental_alter_configs(facts: ServerFacts) -> Iterator[Case]:
    def of(
        kind: int, name: str, *changes: tuple[str, str | None, int], dry: bool = True
    ) -> IncrementalAlterConfigsRequest:
        configs = [Change(name=key, value=value, config_operation=how) for key, value, how in changes]
        changed = ChangedResource(resource_type=kind, resource_name=name, configs=configs)
        return IncrementalAlterConfigsRequest(resources=[changed], validate_only=dry)

    for version in versions(IncrementalAlterConfigsRequest):
        for how in (0, 1, 2, 3):
            for key, value in VALUES:
                yield Case(f"{key}={value}, {how}", of(TOPIC, DATA, (key, value, how)), version)
            for key, value in BROKER_VALUES:
                yield Case(f"broker {key}={value}, {how}", of(BROKER, "1", (key, value, how)), version)
            yield Case(f"policy, {how}", of(TOPIC, DATA, ("cleanup.policy", "compact", how)), version)
            for name, value in (("1", "1"), ("", "2"), ("", "0"), ("", None)):
                wanted = of(BROKER, name, (MIN_ISR, value, how))
                yield Case(f"broker {name!r} {MIN_ISR}={value}, {how}", wanted, version)
            yield Case(f"metrics, {how}", of(CLIENT_METRICS, "some", ("metrics", "a", how)), version)
        for kind, name in RESOURCES:
            yield Case(f"{kind} {label(name)}", of(kind, name, ("retention.ms", "100000000", 0)), version)
            yield Case(f"{kind} {label(name)}, no change", of(kind, name), version)
        twice = of(TOPIC, DATA, ("retention.ms", "1", 0), ("retention.ms", "2", 0))
        yield Case("key twice", twice, version)
        both = of(TOPIC, DATA)
        both.resources = both.resources * 2
        yield Case("topic twice", both, version)
        yield Case("for good", of(TOPIC, DATA, ("retention.ms", "100000000", 0), dry=False), version)
        yield Case("back", of(TOPIC, DATA, ("retention.ms", None, 1), dry=False), version)
        yield Case("nothing", IncrementalAlterConfigsRequest(), version)
        # An operation that does not exist costs Kafka's controller its office for a second or two: once is enough.
        yield Case("unknown operation", of(TOPIC, DATA, ("retention.ms", "1", 4)), version)


def list_config_resources(facts: ServerFacts) -> Iterator[Case]:
    for version in versions(ListConfigResourcesRequest):
        yield Case("all", ListConfigResourcesRequest(), version)
        if version >= 1:
            for kind in (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, 0, 1, 99):
                yield Case(f"of {kind}", ListConfigResourcesRequest(resource_types=[kind]), version)

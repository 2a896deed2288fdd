"""Records become state, state becomes the records of a snapshot, and nothing is lost on the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.partition_registration import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    PartitionRegistration,
)
from tailrace.model.errors import InconsistentMetadataError
from tailrace.model.ids import MIGRATING_DIRECTORY
from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import METADATA_RECORDS, decode_metadata_record, encode_metadata_record
from tailrace.protocol.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from tailrace.protocol.records.control import SnapshotHeaderRecord
from tailrace.protocol.records.ledger import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    ProducerIdsRecord,
    ZkMigrationStateRecord,
)
from tailrace.protocol.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tailrace.protocol.records.settings import ClientQuotaRecord, ConfigRecord, EntityData, FeatureLevelRecord
from tailrace.protocol.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

ID = b"t" * 16
DIRECTORY = b"d" * 16


def image_of(*records: Record) -> MetadataImage:
    image = MetadataImage()
    replay(image, *records)
    return image


def replay(image: MetadataImage, *records: Record) -> MetadataDelta:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta


def partition(index: int = 0, topic_id: bytes = ID, **fields: object) -> PartitionRecord:
    values = {"replicas": [1, 2], "isr": [1, 2], "leader": 1, "leader_epoch": 3, "partition_epoch": 7}
    return PartitionRecord(partition_id=index, topic_id=topic_id, **(values | fields))  # type: ignore[arg-type]


def everything() -> list[Record]:
    return [
        FeatureLevelRecord(name="share.version", feature_level=1),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        RegisterBrokerRecord(
            broker_id=1,
            broker_epoch=5,
            incarnation_id=b"i" * 16,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9092)],
            features=[BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
            rack="r",
            fenced=False,
            log_dirs=[DIRECTORY],
            cordoned_log_dirs=[],
        ),
        RegisterControllerRecord(
            controller_id=1, incarnation_id=b"c" * 16, end_points=[ControllerEndpoint(name="C", host="h", port=9093)]
        ),
        TopicRecord(name="orders", topic_id=ID),
        partition(
            directories=[DIRECTORY, DIRECTORY],
            isr=[],
            leader=-1,
            eligible_leader_replicas=[2],
            last_known_elr=[1],
            adding_replicas=[2],
            leader_recovery_state=1,
        ),
        partition(1, directories=[DIRECTORY, DIRECTORY]),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="7"),
        ConfigRecord(resource_type=4, resource_name="", name="log.cleaner.threads", value="2"),
        ZkMigrationStateRecord(zk_migration_state=3),
        ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name="u")], key="rate", value=1.5),
        ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=2000),
        AccessControlEntryRecord(id=b"a" * 16, resource_name="orders", principal="User:u", host="*"),
        UserScramCredentialRecord(name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"k", iterations=4096),
        DelegationTokenRecord(owner="User:u", requester="User:u", token_id="t"),
    ]


def text_of(image: MetadataImage) -> list[bytes]:
    return [encode_metadata_record(*each) for each in image.records()]


@pytest.mark.spec("RP-01")
def test_a_snapshot_makes_the_same_image() -> None:
    image = image_of(*everything())
    again = image_of(*(decode_metadata_record(each).record for each in text_of(image)))
    assert text_of(again) == text_of(image)
    for name in ("features", "brokers", "controllers", "topics", "configs", "kept"):
        assert getattr(again, name) == getattr(image, name), name
    assert again.next_producer_id == 2000


def test_a_snapshot_is_in_kafkas_order() -> None:
    kinds = [type(each.record) for each in image_of(*everything()).records()]
    assert kinds == [
        *[FeatureLevelRecord] * 3,
        ZkMigrationStateRecord,
        RegisterBrokerRecord,
        RegisterControllerRecord,
        TopicRecord,
        PartitionRecord,
        PartitionRecord,
        ConfigRecord,
        ConfigRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        AccessControlEntryRecord,
        UserScramCredentialRecord,
        DelegationTokenRecord,
    ]
    first = next(image_of(*everything()).records())
    assert first.record == FeatureLevelRecord(name="metadata.version", feature_level=30)


def test_a_snapshot_is_of_the_moment_it_was_asked_for() -> None:
    image = image_of(*everything())
    expected, records = text_of(image), image.records()
    replay(image, RemoveTopicRecord(topic_id=ID), UnregisterBrokerRecord(broker_id=1, broker_epoch=5))
    replay(image, ConfigRecord(resource_type=4, resource_name="", name="log.cleaner.threads", value=None))
    assert [encode_metadata_record(*each) for each in records] == expected


def test_records_are_written_in_the_versions_of_an_older_metadata_version() -> None:
    image = image_of(*everything(), FeatureLevelRecord(name="metadata.version", feature_level=14))
    versions = {type(each.record): each.version for each in image.records()}
    assert versions[PartitionRecord] == 0
    assert versions[RegisterBrokerRecord] == 2
    assert RegisterControllerRecord not in versions
    assert text_of(image)  # nothing is set that the versions lack


def test_every_kind_of_record_is_known() -> None:
    assert set(METADATA_RECORDS.values()) == MetadataDelta.RECORDS
    with pytest.raises(InconsistentMetadataError, match="no record of the metadata log"):
        MetadataDelta(MetadataImage()).replay(SnapshotHeaderRecord())


def test_what_was_kept_is_removed_again() -> None:
    image = image_of(
        *everything(),
        RemoveAccessControlEntryRecord(id=b"a" * 16),
        RemoveUserScramCredentialRecord(name="u", mechanism=1),
        RemoveDelegationTokenRecord(token_id="t"),
        ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name="u")], key="rate", remove=True),
    )
    assert list(image.kept.values()) == [ZkMigrationStateRecord(zk_migration_state=3)]


# Partitions


@pytest.mark.spec("RP-02")
def test_a_new_leader_raises_both_epochs() -> None:
    before = PartitionRegistration.of(partition())
    after = before.merged(PartitionChangeRecord(leader=2))
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (2, 4, 8)
    again = before.merged(PartitionChangeRecord(leader=1))
    assert (again.leader, again.leader_epoch, again.partition_epoch) == (1, 4, 8)
    none = before.merged(PartitionChangeRecord(leader=NO_LEADER))
    assert (none.leader, none.leader_epoch, none.partition_epoch) == (-1, 4, 8)


@pytest.mark.spec("RP-02")
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "isr": st.lists(st.sampled_from([1, 2]), unique=True),
            "adding_replicas": st.just([2]),
            "removing_replicas": st.just([1]),
            "eligible_leader_replicas": st.just([2]),
            "last_known_elr": st.just([1]),
            "leader_recovery_state": st.sampled_from([0, 1]),
            "directories": st.just([DIRECTORY, DIRECTORY]),
            "leader": st.sampled_from([NO_LEADER_CHANGE, NO_LEADER, 1, 2]),
        },
    )
)
def test_every_change_raises_the_partition_epoch_by_one(fields: dict[str, object]) -> None:
    before = PartitionRegistration.of(partition())
    after = before.merged(PartitionChangeRecord(**fields))  # type: ignore[arg-type]
    assert after.partition_epoch == before.partition_epoch + 1
    has_new_leader = fields.get("leader", NO_LEADER_CHANGE) != NO_LEADER_CHANGE
    assert after.leader_epoch == before.leader_epoch + has_new_leader
    for name in ("isr", "adding_replicas", "removing_replicas", "last_known_elr", "directories"):
        expected = tuple(fields[name]) if name in fields else getattr(before, name)  # type: ignore[arg-type]
        assert getattr(after, name) == expected


@pytest.mark.spec("RP-38")
def test_no_leader_and_the_preferred_one() -> None:
    offline = PartitionRegistration.of(partition(leader=-1))
    assert NO_LEADER == -1
    assert not offline.has_leader
    assert offline.preferred_leader == 1
    assert PartitionRegistration.of(partition(replicas=[2, 1])).preferred_leader == 2


def test_partitions_of_before_directories() -> None:
    registration = PartitionRegistration.of(partition())
    assert registration.directories == (MIGRATING_DIRECTORY, MIGRATING_DIRECTORY)
    assert registration.directory_of(2) == MIGRATING_DIRECTORY
    assert registration.directory_of(9) is None
    with pytest.raises(InconsistentMetadataError, match="2 replicas in 1 directories"):
        PartitionRegistration.of(partition(directories=[DIRECTORY]))


def test_elr_is_cleared() -> None:
    image = image_of(*everything())
    delta = replay(image, ClearElrRecord(topic_name="orders"))
    assert set(delta.changed_partitions) == {("orders", 0)}
    assert (image.topics["orders"].partitions[0].elr, image.topics["orders"].partitions[0].last_known_elr) == ((), ())
    image = image_of(*everything())
    assert set(replay(image, ClearElrRecord()).changed_partitions) == {("orders", 0)}


# Deltas


def test_a_delta_names_what_changed() -> None:
    image = image_of(*everything())
    delta = replay(
        image,
        PartitionChangeRecord(topic_id=ID, partition_id=1, leader=2),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=1),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=None),
        FeatureLevelRecord(name="share.version", feature_level=0),
    )
    assert delta.changed_partitions == {("orders", 1): image.topics["orders"].partitions[1]}
    assert delta.changed_brokers == {1}
    assert delta.changed_configs == {(2, "orders")}
    assert delta.features_changed
    assert image.brokers[1].is_fenced
    assert "share.version" not in image.features
    assert (2, "orders") not in image.configs
    assert MetadataDelta(image).is_empty
    assert not delta.is_empty
    assert replay(image, NoOpRecord()).is_empty


@pytest.mark.spec("RP-01")
def test_a_topic_deleted_and_created_again_in_one_delta() -> None:
    image = image_of(*everything())
    old = image.topics["orders"]
    delta = replay(
        image,
        PartitionChangeRecord(topic_id=ID, partition_id=1, leader=2),
        RemoveTopicRecord(topic_id=ID),
        TopicRecord(name="orders", topic_id=b"n" * 16),
        partition(topic_id=b"n" * 16),
    )
    assert delta.deleted_topics == [old]
    assert set(delta.changed_partitions) == {("orders", 0)}
    assert image.topics["orders"].id == b"n" * 16
    assert image.topic_config("orders") == {}
    assert delta.changed_configs == {(2, "orders")}


def test_a_topic_that_comes_and_goes_in_one_delta_was_never_there() -> None:
    image = MetadataImage()
    delta = replay(image, TopicRecord(name="t", topic_id=ID), partition(), RemoveTopicRecord(topic_id=ID))
    assert delta.is_empty
    assert not image.topics_by_id


def test_everything_at_once() -> None:
    image = image_of(*everything())
    delta = MetadataDelta.of_everything(image)
    assert set(delta.changed_partitions) == {("orders", 0), ("orders", 1)}
    assert delta.changed_brokers == {1}
    assert delta.changed_configs == {(2, "orders"), (4, "")}


# Transactions


def test_a_transaction_counts_when_it_ends() -> None:
    image = MetadataImage()
    topic = TopicRecord(name="t", topic_id=ID)
    assert replay(image, BeginTransactionRecord(name="x"), topic).is_empty
    assert not image.topics
    delta = replay(image, partition(), EndTransactionRecord())
    assert set(delta.changed_partitions) == {("t", 0)}
    assert image.held_back is None


def test_an_aborted_transaction_never_counts() -> None:
    image = MetadataImage()
    replay(image, BeginTransactionRecord(), TopicRecord(name="t", topic_id=ID), AbortTransactionRecord())
    assert not image.topics


# What contradicts itself


@pytest.mark.parametrize(
    "records",
    [
        [partition(topic_id=b"x" * 16)],
        [RemoveTopicRecord(topic_id=b"x" * 16)],
        [TopicRecord(name="orders", topic_id=b"x" * 16)],
        [PartitionChangeRecord(topic_id=ID, partition_id=9)],
        [ClearElrRecord(topic_name="x")],
        [FenceBrokerRecord(id=9, epoch=5)],
        [UnfenceBrokerRecord(id=1, epoch=4)],
        [UnregisterBrokerRecord(broker_id=1, broker_epoch=6)],
        [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=3)],
        [EndTransactionRecord()],
        [AbortTransactionRecord()],
        [BeginTransactionRecord(), BeginTransactionRecord()],
    ],
)
def test_contradictions_are_refused(records: list[Record]) -> None:
    with pytest.raises(InconsistentMetadataError):
        replay(image_of(*everything()), *records)


def test_partitions_share_the_ids_of_brokers_and_directories() -> None:
    image = image_of(TopicRecord(name="t", topic_id=b"t" * 16))
    for index in range(2):  # new objects with equal values, as a decoder makes them
        ids, directories = [int(f"{n}000") for n in (1, 2)], [bytes(bytearray(b"d" * 16)) for _ in range(2)]
        fields = {"replicas": ids, "isr": [*ids], "leader": ids[0], "directories": directories}
        replay(image, PartitionRecord(topic_id=b"t" * 16, partition_id=index, **fields))  # type: ignore[arg-type]
    isr = [int(f"{n}000") for n in (2, 1)]
    replay(image, PartitionChangeRecord(topic_id=b"t" * 16, partition_id=1, isr=isr))
    one, other = image.topics["t"].partitions.values()
    assert one.isr is one.replicas
    assert other.isr == (2000, 1000)
    brokers = [each for partition in (one, other) for each in (*partition.replicas, *partition.isr)]
    assert len({id(each) for each in brokers}) == 2
    assert len({id(each) for partition in (one, other) for each in partition.directories}) == 1

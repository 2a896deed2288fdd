from __future__ import annotations

import itertools
import socket
from threading import Thread

import pytest

from support.brokers.scripted import HANG_UP, NO_ANSWER, Pauses, ScriptedBroker, topic_id
from tailrace.client.cluster import METADATA_MAX_AGE_S, NO_ID, Cluster
from tailrace.client.deadline import LONGEST_PAUSE_S
from tailrace.client.errors import BrokerUnreachableError, ConnectionLostError, NoAnswerError, class_of, error_of
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition

UNKNOWN_TOPIC = class_of(3)
LEADER_NOT_AVAILABLE = class_of(5)


def test_topics_brokers_and_leaders_are_learned(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders", 2)
    broker.add_topic("a")
    assert [topic.name for topic in cluster.topics()] == ["a", "orders"]
    topic = cluster.topic("orders")
    assert (topic.id, list(topic.partitions)) == (topic_id("orders"), [0, 1])
    assert cluster.leader(TopicPartition("orders", 1)).leader == 1
    assert cluster.brokers[1].address == ("127.0.0.1", broker.port)
    assert (cluster.cluster_id, cluster.controller_id) == ("test", 1)


def test_what_is_known_is_not_asked_again_until_it_is_forgotten_or_old(broker: ScriptedBroker) -> None:
    broker.add_topic("orders")
    now = [0.0]
    with Cluster(broker.address, clock=lambda: now[0]) as cluster:
        for _ in range(3):
            cluster.topic("orders")
        assert len(broker.requests(MetadataRequest)) == 1
        cluster.forget("orders")
        cluster.topic("orders")
        assert len(broker.requests(MetadataRequest)) == 2
        now[0] += METADATA_MAX_AGE_S
        cluster.topic("orders")
        assert len(broker.requests(MetadataRequest)) == 3


def test_a_topic_that_is_not_there_is_not_waited_for(broker: ScriptedBroker, cluster: Cluster, pauses: Pauses) -> None:
    with pytest.raises(UNKNOWN_TOPIC, match="topic nope: there is no such topic"):
        cluster.topic("nope")
    assert pauses.seconds == []
    assert not broker.requests(MetadataRequest)[0].allow_auto_topic_creation


def test_a_topic_that_is_being_made_is_waited_for(broker: ScriptedBroker, cluster: Cluster, pauses: Pauses) -> None:
    broker.add_topic("new")
    codes = iter([3, 5, 5, 0])
    broker.answers[MetadataRequest] = lambda request: broker.metadata(request, [next(codes)])
    assert cluster.topic("new", waits=True).name == "new"
    assert pauses.seconds == [0.05, 0.1, 0.2]


def test_pauses_grow_up_to_a_limit_and_end_with_the_time(broker: ScriptedBroker, pauses: Pauses) -> None:
    broker.add_topic("new")
    broker.answers[MetadataRequest] = lambda request: broker.metadata(request, [5])
    clock = itertools.count(0.0, 0.5)
    with (
        Cluster(broker.address, timeout_s=20, pause=pauses, clock=lambda: next(clock)) as cluster,
        pytest.raises(LEADER_NOT_AVAILABLE),
    ):
        cluster.topic("new")
    assert len(pauses.seconds) > 5
    *before, _ = pauses.seconds  # the last one may end with the time
    assert before == sorted(before)
    assert max(pauses.seconds) == LONGEST_PAUSE_S


def test_an_operation_inside_a_retry_does_not_extend_it(broker: ScriptedBroker) -> None:
    broker.add_topic("new")
    broker.answers[MetadataRequest] = lambda request: broker.metadata(request, [5])
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    with Cluster(broker.address, timeout_s=5, pause=pause, clock=lambda: now[0]) as cluster:

        def attempt() -> None:
            if now[0] < 4:
                raise error_of(5, "early")
            cluster.topic("new")

        with pytest.raises(LEADER_NOT_AVAILABLE, match="topic new"):
            cluster.retry("it", attempt)
    assert now[0] == pytest.approx(5)


def test_a_request_takes_no_longer_than_the_enclosing_limits(broker: ScriptedBroker, cluster: Cluster) -> None:
    cluster.topics()
    broker.answers[MetadataRequest] = lambda _: NO_ANSWER
    long, short = cluster.deadline(3600), cluster.deadline(0.05)
    with cluster.within(long), cluster.within(short), cluster.within(long), pytest.raises(NoAnswerError):
        cluster.refresh(None)
    with cluster.within(None):
        assert cluster.timeout_s == 10


def test_errors_that_stay_are_not_tried_again(cluster: Cluster, pauses: Pauses) -> None:
    def attempt() -> None:
        raise error_of(36)

    with pytest.raises(class_of(36)):
        cluster.retry("it", attempt)
    assert pauses.seconds == []


def test_a_partition_that_the_topic_lacks(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders", 2)
    with pytest.raises(UNKNOWN_TOPIC, match="has no partition 2, but partitions 0 to 1"):
        cluster.leader(TopicPartition("orders", 2))


def test_a_partition_without_a_leader_is_asked_about_again(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders")

    def headless(request: MetadataRequest) -> MetadataResponse:
        response = broker.metadata(request)
        response.topics[0].partitions = [MetadataResponsePartition(leader_id=-1, replica_nodes=[1], isr_nodes=[])]
        return response

    broker.answers[MetadataRequest] = headless
    with pytest.raises(LEADER_NOT_AVAILABLE, match="orders-0 has no leader now"):
        cluster.leader(TopicPartition("orders", 0))
    del broker.answers[MetadataRequest]
    assert cluster.leader(TopicPartition("orders", 0)).leader == 1


def test_one_bootstrap_address_that_answers_is_enough(broker: ScriptedBroker) -> None:
    with Cluster(["127.0.0.1:1", broker.address]) as cluster:
        assert cluster.topics() == []


def test_an_address_that_accepts_connections_and_closes_them_does_not_hide_the_next(broker: ScriptedBroker) -> None:
    """Such as a proxy in front of a broker that is down."""

    def close(listener: socket.socket) -> None:
        listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as proxy:
        closing = Thread(target=close, args=(proxy,))
        closing.start()
        with Cluster([f"127.0.0.1:{proxy.getsockname()[1]}", broker.address]) as cluster:
            assert cluster.refresh(None).topics == []
        closing.join()


def test_nobody_at_all_is_told_at_once(pauses: Pauses) -> None:
    with Cluster("127.0.0.1:1", pause=pauses) as cluster, pytest.raises(BrokerUnreachableError):
        cluster.topics()
    assert pauses.seconds == []


def test_a_lost_connection_is_opened_again(broker: ScriptedBroker, cluster: Cluster, pauses: Pauses) -> None:
    cluster.topics()
    broker.answers[MetadataRequest] = lambda _: HANG_UP
    with pytest.raises(ConnectionLostError):
        cluster.refresh(None)
    del broker.answers[MetadataRequest]
    assert cluster.topics() == []
    assert broker.connections == 2


def test_a_broker_that_the_cluster_lacks(broker: ScriptedBroker, cluster: Cluster) -> None:
    with pytest.raises(BrokerUnreachableError, match="there is no broker 7; there are 1"):
        cluster.connection(7)


def test_an_old_broker_tells_no_ids(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.versions[MetadataRequest.KEY] = (0, 9)
    broker.add_topic("orders")
    assert cluster.topic("orders").id == NO_ID
    assert not cluster.knows_ids(["orders"])


def test_an_error_of_the_whole_answer(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.answers[MetadataRequest] = lambda _: MetadataResponse(error_code=129)
    with pytest.raises(TailraceError, match="REBOOTSTRAP_REQUIRED"):
        cluster.topics()

"""Groups and transactions through confluent-kafka, for `peers_run.py`. One JSON line comes out; an error stops the run.

    python coordinator_load.py transactions PORT TOPIC PRODUCERS SECONDS
    python coordinator_load.py join PORT TOPIC PROTOCOL MEMBERS GROUPS

transactions has PRODUCERS threads, each with a transactional id of its own, begin, send 10 records of 100 bytes and
commit, again and again; the first of each is not counted. join starts MEMBERS consumers of a new group at once, for a
topic with as many partitions, until every one of them has one partition; GROUPS one after the other, because one alone
takes long or short by chance: who comes too late for a round of joining waits for the next.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

RECORDS = 10
VALUE = bytes(range(100))
LONGEST_JOIN_S = 60.0
HEARTBEAT_MS = 100
NOT_YET = (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR)
LOOK_S = 0.001  # a look at all members: to wait in each one's poll would make steps of ten times as much


def transactions(port: str, topic: str, producers: int, seconds: float) -> dict[str, float]:
    ready, stop = threading.Barrier(producers + 1), threading.Event()
    counts, problems = [0] * producers, []

    def run(place: int) -> None:
        try:
            producer = Producer(
                {
                    "bootstrap.servers": f"127.0.0.1:{port}",
                    "transactional.id": f"load-{place}-{uuid.uuid4()}",
                    "linger.ms": 0,
                }
            )
            producer.init_transactions(30)
            one_transaction(producer, place)
            ready.wait(60)
            while not stop.is_set():
                one_transaction(producer, place)
                counts[place] += 1
        except Exception as error:
            problems.append(error)
            ready.abort()

    def one_transaction(producer: Producer, place: int) -> None:
        producer.begin_transaction()
        for _ in range(RECORDS):
            producer.produce(topic, VALUE, partition=place)
        producer.commit_transaction(30)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(producers)]
    for thread in threads:
        thread.start()
    try:
        ready.wait(60)
    except threading.BrokenBarrierError:
        raise RuntimeError(f"a producer failed: {problems}") from None
    began = time.monotonic()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    if problems:
        raise RuntimeError(f"a producer failed: {problems}")
    return {"transactions": sum(counts), "transactions_per_s": sum(counts) / took, "seconds": took}


def join(port: str, topic: str, protocol: str, members: int, groups: int) -> dict[str, float]:
    took = sum(one_join(port, topic, protocol, members) for _ in range(groups))
    return {"seconds": took / groups, "members": members, "groups": groups}


def one_join(port: str, topic: str, protocol: str, members: int) -> float:
    settings = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "group.id": f"joined-{uuid.uuid4()}",
        "group.protocol": protocol,
        "enable.auto.commit": False,
    }
    if protocol == "classic":
        settings["heartbeat.interval.ms"] = HEARTBEAT_MS
    consumers = [Consumer(settings) for _ in range(members)]
    for consumer in consumers:
        connect(consumer, topic)
    began = time.monotonic()
    for consumer in consumers:
        consumer.subscribe([topic])
    while time.monotonic() - began < LONGEST_JOIN_S:
        for consumer in consumers:
            consumer.poll(0)
        time.sleep(LOOK_S)
        if all(len(consumer.assignment()) == 1 for consumer in consumers):
            break
    else:
        raise RuntimeError(f"the group did not settle: {[len(each.assignment()) for each in consumers]}")
    took = time.monotonic() - began
    for consumer in consumers:
        consumer.close()
    return took


def connect(consumer: Consumer, topic: str) -> None:
    """Only an answer of the coordinator shows a connection to it; who has none yet looks again after 50 ms."""
    deadline = time.monotonic() + LONGEST_JOIN_S
    while True:
        try:
            consumer.committed([TopicPartition(topic, 0)], timeout=30)
            return
        except KafkaException as failure:  # a broker that has just begun is not the coordinator yet
            if failure.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(LOOK_S)


def main() -> None:
    kind, port, topic, *rest = sys.argv[1:]
    if kind == "transactions":
        result = transactions(port, topic, int(rest[0]), float(rest[1]))
    else:
        result = join(port, topic, rest[0], int(rest[1]), int(rest[2]))
    print(json.dumps(result))


if __name__ == "__main__":
    main()

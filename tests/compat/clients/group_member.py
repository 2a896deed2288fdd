"""One member of a consumer group, as a process of its own: `group_member.py LIBRARY ADDRESS GROUP TOPIC [SETTINGS]`.

It handles records, which is to say that it tells of them, commits after every batch, and ends when its standard input
does: that is how it is asked to leave. What it does it tells in JSON lines, `{"at": nanoseconds, "kind": …}`, in the
words of `support.coordinators.group_history`. SETTINGS is a JSON object in the spelling of the library.

`group_member.js` is the same for kafkajs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

SESSION_TIMEOUT_MS = 6000
HEARTBEAT_MS = 500
POLL_S = 0.1
LONG_POLL_S = 2  # of kafka-python, which forgets its assignment where the time of a poll is over just when it comes
ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH = 22, 27, 113


class Teller:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_asked_to_leave = threading.Event()
        threading.Thread(target=self._wait_for_the_end_of_input, daemon=True).start()

    def _wait_for_the_end_of_input(self) -> None:
        sys.stdin.read()
        self.is_asked_to_leave.set()

    def owns(self, partitions: Iterable[Any]) -> None:
        self._tell("owns", partitions=[each.partition for each in partitions])

    def gives_up(self, partitions: Iterable[Any]) -> None:
        self._tell("gives up", partitions=[each.partition for each in partitions])

    def handled(self, partition: int, offset: int) -> None:
        self._tell("handled", partitions=[partition], offset=offset)

    def leaves(self) -> None:
        """Said before the library tells it to the coordinator."""
        self._tell("leaves")

    def _tell(self, kind: str, **more: object) -> None:
        with self._lock:
            sys.stdout.write(json.dumps({"at": time.monotonic_ns(), "kind": kind, **more}) + "\n")
            sys.stdout.flush()


def confluent(tell: Teller, address: str, group: str, topic: str, settings: dict[str, Any]) -> None:
    from confluent_kafka import Consumer, KafkaException

    classic = {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            **(classic if settings.get("group.protocol") != "consumer" else {}),
            **settings,
        }
    )
    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: tell.owns(partitions),
        on_revoke=lambda _, partitions: tell.gives_up(partitions),
        on_lost=lambda _, partitions: tell.gives_up(partitions),
    )
    while not tell.is_asked_to_leave.is_set():
        message = consumer.poll(POLL_S)
        if message is None:
            continue
        if message.error():
            if message.error().code() == REBALANCE_IN_PROGRESS:
                continue  # the group changed its protocol during JoinGroup: librdkafka reports that, and joins again
            raise KafkaException(message.error())
        tell.handled(message.partition(), message.offset())
        _through_a_rebalance(lambda message=message: consumer.commit(message=message, asynchronous=False))
    tell.leaves()
    consumer.close()


def _through_a_rebalance(commit: Callable[[], object]) -> None:
    """librdkafka rejoins beside the handling of a record. The partition is ours until a callback, which only `poll`
    makes, takes it; so a commit that crossed the rejoining, with the generation of before, is to be sent again.
    """
    from confluent_kafka import KafkaException

    while True:
        try:
            commit()
        except KafkaException as error:
            if error.args[0].code() not in (ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH):
                raise
            time.sleep(0.05)
        else:
            return


def kafka_python(tell: Teller, address: str, group: str, topic: str, settings: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka import ConsumerRebalanceListener, KafkaConsumer
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
        from kafka.errors import KafkaConnectionError

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            tell.gives_up(revoked)

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            tell.owns(assigned)

    assignors = {"range": RangePartitionAssignor, "sticky": StickyPartitionAssignor}
    consumer = KafkaConsumer(
        bootstrap_servers=address,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        fetch_max_wait_ms=50,
        partition_assignment_strategy=[assignors[settings.get("assignor", "range")]],
    )
    consumer.subscribe([topic], listener=Listener())
    while not tell.is_asked_to_leave.is_set():
        try:
            found = consumer.poll(timeout_ms=LONG_POLL_S * 1000, max_records=20)
        except KafkaConnectionError:  # the broker is down for a while
            continue
        for partition, records in found.items():
            for record in records:
                tell.handled(partition.partition, record.offset)
        if found:
            consumer.commit()
    tell.leaves()
    consumer.close()


def aiokafka(tell: Teller, address: str, group: str, topic: str, settings: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}

    async def run() -> None:
        at_work = asyncio.Lock()  # a rebalance goes on beside the handling, and is to wait for it
        rebalances = 0

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                nonlocal rebalances
                async with at_work:
                    rebalances += 1
                    tell.gives_up(revoked)

            async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                tell.owns(assigned)

        consumer = AIOKafkaConsumer(
            bootstrap_servers=address,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            fetch_max_wait_ms=50,
            partition_assignment_strategy=[assignors[settings.get("assignor", "roundrobin")]],
        )
        consumer.subscribe([topic], listener=Listener())
        await consumer.start()
        while not tell.is_asked_to_leave.is_set():
            seen = rebalances
            found = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=20)
            async with at_work:
                if seen != rebalances:  # these may have been read before it
                    for partition in consumer.assignment() & found.keys():
                        consumer.seek(partition, found[partition][0].offset)
                    continue
                for partition, records in found.items():
                    for record in records:
                        tell.handled(partition.partition, record.offset)
                if found:
                    await consumer.commit({partition: records[-1].offset + 1 for partition, records in found.items()})
        tell.leaves()
        await consumer.stop()

    asyncio.run(run())


LIBRARIES = {"confluent-kafka": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}


def main() -> None:
    library, address, group, topic, *settings = sys.argv[1:]
    LIBRARIES[library](Teller(), address, group, topic, json.loads(settings[0]) if settings else {})


if __name__ == "__main__":
    main()

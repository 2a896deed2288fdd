"""What transactional producers say to their coordinator, and what it answers: good manners first, then bad ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from support.conversations.conversation import Talk
from support.requests.case import COMPACTED, DATA
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest

TRANSACTION_KEY = 1
NOT_READY = (14, 15, 16)
LAST_EPOCH = 32_766
Topics = dict[str, list[int]]


def pause(talk: Talk, seconds: float) -> None:
    """On a simulated machine its time passes, not ours."""
    getattr(talk._client, "pause", time.sleep)(seconds)


class Producer:
    """What a client of one transactional id sends; it remembers what it was given, and does as it is told."""

    def __init__(self, talk: Talk, transactional_id: str) -> None:
        self._talk = talk
        self.id = -1
        self.epoch = -1
        self.transactional_id = transactional_id
        self._find_coordinator()

    def _find_coordinator(self) -> None:
        """And wait until it knows that it is."""
        key = self.transactional_id or "anything"
        for _ in range(200):
            self._talk._client.ask(FindCoordinatorRequest(key_type=TRANSACTION_KEY, key=key), 2)
            described: Any = self._talk._client.ask(DescribeTransactionsRequest(transactional_ids=[key]), 0)
            if described.transaction_states[0].error_code not in NOT_READY:
                return
            pause(self._talk, 0.1)

    def init(self, name: str, version: int = 4, *, timeout_ms: int = 60_000, **fields: Any) -> Any:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms, **fields
        )
        answer = self._talk.ask(name, request, version)
        if not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.settle()
        return answer

    def again(self, name: str, version: int = 4, *, id_off: int = 0, epoch_off: int = 0) -> Any:
        """After an error: with what it has, or nearly."""
        return self.init(name, version, producer_id=self.id + id_off, producer_epoch=self.epoch + epoch_off)

    def add(self, name: str, topics: Topics, version: int = 3, *, id_off: int = 0, epoch_off: int = 0) -> Any:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id + id_off,
            v3_and_below_producer_epoch=self.epoch + epoch_off,
            v3_and_below_topics=topic_list(topics),
        )
        return self._talk.ask(name, request, version)

    def add_offsets(self, name: str, version: int = 3, *, id_off: int = 0, epoch_off: int = 0) -> Any:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id + id_off,
            producer_epoch=self.epoch + epoch_off,
            group_id="group",
        )
        return self._talk.ask(name, request, version)

    def part(self, topics: Topics, *, verify_only: bool, id_off: int = 0, epoch_off: int = 0) -> Any:
        """Of a request of brokers."""
        return AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.id + id_off,
            producer_epoch=self.epoch + epoch_off,
            verify_only=verify_only,
            topics=topic_list(topics),
        )

    def end(
        self,
        name: str,
        version: int = 3,
        *,
        commit: bool = True,
        id_off: int = 0,
        epoch_off: int = 0,
        keeps: bool = False,
    ) -> Any:
        """`keeps`: it does not hear the answer."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id + id_off,
            producer_epoch=self.epoch + epoch_off,
            committed=commit,
        )
        answer = self._talk.ask(name, request, version)
        if version >= 5 and not answer.error_code and not keeps:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.settle()
        return answer

    def describe(self, name: str) -> None:
        answer = self._talk.ask(name, DescribeTransactionsRequest(transactional_ids=[self.transactional_id]), 0)
        for row in answer.transaction_states:
            row.transaction_start_time_ms = min(row.transaction_start_time_ms, 1)  # that there is one

    def settle(self) -> None:
        """Until the markers are written: nobody says when."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        for _ in range(200):
            answer: Any = self._talk._client.ask(request, 0)
            if not answer.transaction_states[0].transaction_state.startswith("Prepare"):
                return
            pause(self._talk, 0.02)


def topic_list(topics: Topics) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=name, partitions=list(indexes)) for name, indexes in topics.items()]


def brokers_ask(talk: Talk, name: str, parts: Iterable[AddPartitionsToTxnTransaction], version: int = 5) -> Any:
    return talk.ask(name, AddPartitionsToTxnRequest(transactions=list(parts)), version)


def list_transactions(talk: Talk, name: str, version: int = 2, **filters: Any) -> None:
    """Of those of one conversation."""
    answer = talk.ask(name, ListTransactionsRequest(**filters), version)
    answer.transaction_states = [row for row in answer.transaction_states if row.transactional_id.startswith("listed-")]


ONE: Topics = {DATA: [0]}
OTHER: Topics = {DATA: [1]}


def initialisation(talk: Talk) -> None:
    producer = Producer(talk, "init")
    for version in range(6):
        producer.init(f"v{version}", version)
    producer.again("goes on", 4)
    producer.again("asks again", 4, epoch_off=-1)
    for version in (3, 4, 5):
        producer.again(f"v{version} a wrong epoch", version, epoch_off=-3)
        producer.again(f"v{version} an epoch to come", version, epoch_off=3)
        producer.again(f"v{version} a wrong id", version, id_off=1)
    producer.init("an id without an epoch", producer_id=5)
    producer.init("an epoch without an id", producer_epoch=5)
    for timeout_ms in (0, -1, 1, 900_000, 900_001, 2**31 - 1):
        producer.init(f"timeout {timeout_ms}", timeout_ms=timeout_ms)
    Producer(talk, "init-new").init("nobody knows it", producer_id=77, producer_epoch=3)
    producer.describe("described")


def fencing(talk: Talk) -> None:
    for version, end_version in ((0, 1), (3, 4), (4, 5)):
        old = Producer(talk, f"fence-{version}")
        old.init(f"v{version} old")
        old.add(f"v{version} under way", ONE)
        new = Producer(talk, f"fence-{version}")
        new.init(f"v{version} aborts first", version)
        new.describe(f"v{version} aborted")
        new.init(f"v{version} new", version)
        for each in range(4):
            old.add(f"v{version} old adds with v{each}", OTHER, each)
            old.add_offsets(f"v{version} old adds offsets with v{each}", each)
        for each in range(6):
            old.end(f"v{version} old ends with v{each}", each, keeps=True)
        old.again(f"v{version} old goes on", version=max(version, 3))
        new.add(f"v{version} new adds", OTHER)
        new.end(f"v{version} new ends", end_version)


def one_epoch(talk: Talk) -> None:
    """Transactions that end without a new epoch."""
    producer = Producer(talk, "one-epoch")
    producer.add("not initialised", ONE)
    producer.add_offsets("offsets, not initialised")
    producer.end("end, not initialised")
    producer.describe("not there")
    producer.init("init")
    for commit in (True, False):
        producer.end(f"nothing to end {commit}", commit=commit)
    producer.add("unknown partition", {DATA: [0, 9]})
    producer.add("unknown topic", {"nope": [0], DATA: [0, 1]})
    producer.add("nothing", {})
    producer.end("end of nothing")
    producer.add("one", ONE)
    producer.describe("one is in it")
    producer.add("one again", ONE)
    producer.add("two", {DATA: [1], COMPACTED: [0]})
    producer.add_offsets("offsets")
    producer.describe("four are in it")
    producer.end("wrong epoch", epoch_off=1)
    producer.end("wrong id", id_off=1)
    producer.end("commit")
    producer.describe("committed")
    producer.end("commit again")
    producer.end("abort what is committed", commit=False)
    producer.add_offsets("offsets first")
    producer.describe("offsets are in it")
    producer.end("abort", commit=False)
    producer.end("abort again", commit=False)
    producer.end("commit what is aborted")
    producer.init("init again")
    producer.describe("empty")
    for version in range(5):
        producer.add(f"add v{version}", ONE, min(version, 3))
        producer.end(f"end v{version}", version, commit=version % 2 == 0)
    nameless = Producer(talk, "")
    nameless.init("no name")
    nameless.add("no name adds", ONE)
    nameless.add_offsets("no name adds offsets")
    nameless.end("no name ends")
    nameless.describe("no name described")


def new_epochs(talk: Talk) -> None:
    """Transactions whose every end brings a new epoch."""
    producer = Producer(talk, "new-epochs")
    producer.init("init")
    producer.end("commit of nothing", 5)
    producer.end("abort of nothing", 5, commit=False)
    producer.describe("aborted nothing")
    brokers_ask(talk, "added", [producer.part(ONE, verify_only=False)])
    producer.describe("one is in it")
    producer.end("wrong epoch", 5, epoch_off=1)
    producer.end("epoch before", 5, epoch_off=-1, keeps=True)
    producer.end("wrong id", 5, id_off=1)
    producer.end("commit", 5, keeps=True)
    producer.end("abort, unheard", 5, commit=False, keeps=True)
    producer.end("commit, unheard", 5)
    producer.describe("committed")
    producer.end("commit of nothing more", 5)
    producer.end("abort of nothing more", 5, commit=False, keeps=True)
    producer.end("commit, unheard abort", 5, keeps=True)
    producer.end("abort, unheard abort", 5, commit=False)
    producer.end("abort after that", 5, commit=False)
    producer.end("two epochs ago", 5, epoch_off=-2, keeps=True)
    producer.end("commit after an abort", 5)
    brokers_ask(talk, "added again", [producer.part(ONE, verify_only=False)])
    producer.end("ended by an older client", 4)
    producer.end("ended again", 4)
    producer.end("ended again, newer", 5)
    producer.describe("after the older client")
    producer.again("goes on")
    producer.again("asks again", epoch_off=-1)


def of_brokers(talk: Talk) -> None:
    one, two = Producer(talk, "brokers-1"), Producer(talk, "brokers-2")
    one.init("one")
    two.init("two")
    brokers_ask(talk, "verified, not there", [one.part(ONE, verify_only=True)], 4)
    added = [one.part(ONE, verify_only=False), two.part({DATA: [0, 1]}, verify_only=False)]
    brokers_ask(talk, "added", added, 4)
    for version in (4, 5):
        for verify_only in (True, False):
            how = f"v{version} {'verified' if verify_only else 'added'}"
            parts = [one.part({DATA: [0, 2]}, verify_only=verify_only), two.part(OTHER, verify_only=verify_only)]
            brokers_ask(talk, f"{how} partly", parts, version)
            brokers_ask(talk, f"{how}, wrong epoch", [one.part(ONE, verify_only=verify_only, epoch_off=1)], version)
            brokers_ask(talk, f"{how}, wrong id", [one.part(ONE, verify_only=verify_only, id_off=5)], version)
            brokers_ask(talk, f"{how}, unknown", [one.part({"nope": [0], DATA: [0]}, verify_only=verify_only)], version)
            brokers_ask(talk, f"{how}, nothing", [one.part({}, verify_only=verify_only)], version)
            stranger = Producer(talk, "brokers-3")
            brokers_ask(talk, f"{how}, nobody", [stranger.part(ONE, verify_only=verify_only)], version)
            nameless = Producer(talk, "")
            brokers_ask(talk, f"{how}, no name", [nameless.part(ONE, verify_only=verify_only)], version)
    one.describe("one described")
    one.end("one ends", 5)
    two.end("two ends", 5, commit=False)
    brokers_ask(talk, "verified after the end", [one.part(ONE, verify_only=True)])


def used_up_epochs(talk: Talk) -> None:
    producer = Producer(talk, "used-up")
    producer.init("init")
    first = producer.id
    while producer.epoch < LAST_EPOCH - 1 and producer.id == first:
        request = InitProducerIdRequest(transactional_id="used-up", transaction_timeout_ms=60_000)
        answer: Any = talk._client.ask(request, 4)
        producer.id, producer.epoch = answer.producer_id, answer.producer_epoch
    producer.add("last but one", ONE)
    producer.end("committed", 5)
    producer.describe("at the last epoch")
    brokers_ask(talk, "added", [producer.part(ONE, verify_only=False)])
    before = producer.id
    producer.end("ended at the last", 5, keeps=True)
    producer.end("ended at the last, unheard", 5)
    talk.note("has another id", producer.id != before)
    producer.describe("with another id")
    producer.again("goes on")


def described_and_listed(talk: Talk) -> None:
    empty, ongoing, done = (Producer(talk, f"listed-{name}") for name in ("empty", "ongoing", "done"))
    talk.ask("nobody", DescribeTransactionsRequest(transactional_ids=["nobody-knows", ""]), 0)
    talk.ask("none", DescribeTransactionsRequest(transactional_ids=[]), 0)
    for each in (empty, ongoing, done):
        each.init(each.transactional_id)
    ongoing.add("ongoing", {DATA: [2]})
    done.add("done", OTHER)
    done.end("ended")
    for version in range(3):
        list_transactions(talk, f"v{version}", version)
        list_transactions(talk, f"v{version} by state", version, state_filters=["Ongoing", "Nonsense", "Dead", "empty"])
        list_transactions(talk, f"v{version} by unknown state", version, state_filters=["Nonsense"])
        list_transactions(talk, f"v{version} by producer", version, producer_id_filters=[done.id, 1 << 40])
    pause(talk, 0.02)
    for duration_ms in (-1, 0, 10**9):
        list_transactions(talk, f"by duration {duration_ms}", duration_filter=duration_ms)
    for pattern in ("listed-.*", "listed-(empty|done)", "listed", "", ".*o.*", "(", "[a", "a{2000}"):
        list_transactions(talk, f"by pattern {pattern}", transactional_id_pattern=pattern)
    ongoing.end("aborted", commit=False)


CONVERSATIONS_OF_TRANSACTIONS: tuple[Callable[[Talk], None], ...] = (
    initialisation,
    fencing,
    one_epoch,
    new_epochs,
    of_brokers,
    used_up_epochs,
    described_and_listed,
)

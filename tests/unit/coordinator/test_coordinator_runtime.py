"""The runtime with the smallest state machine there is: when commands are answered, refused, and what survives."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from support.coordinators.replica_pair import CoordinatorPair, refusal
from tailrace.config.log import LogConfig
from tailrace.coordinator.outcome import CoordinatorRecord, Outcome, ProducerBatchId
from tailrace.coordinator.records import TRANSACTION_RECORDS
from tailrace.coordinator.runtime import java_hash
from tailrace.coordinator.shard import Shard, ShardState
from tailrace.metadata.delta import MetadataDelta
from tailrace.model.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    NotCoordinatorError,
    TailraceError,
    UnknownServerError,
)
from tailrace.protocol.records.transactions import TransactionLogKey, TransactionLogValue

TOPIC = "__transaction_state"


class Numbers:
    """A number for each name; numbers of a transaction count when it is committed."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.numbers: dict[str, int] = {}
        self.offsets: list[int] = []
        self.pending: dict[int, dict[str, int]] = {}
        self.events: list[Any] = []

    def replay(self, record: CoordinatorRecord, offset: int, producer: ProducerBatchId | None) -> None:
        assert isinstance(record.key, TransactionLogKey)
        name, value = record.key.transactional_id, record.value
        target = self.numbers if producer is None else self.pending.setdefault(producer.id, {})
        if isinstance(value, TransactionLogValue):
            target[name] = value.producer_id
        else:
            target.pop(name, None)
        self.offsets.append(offset)

    def replay_marker(self, producer_id: int, producer_epoch: int, is_commit: bool, offset: int) -> None:
        found = self.pending.pop(producer_id, {})
        if is_commit:
            self.numbers.update(found)

    def loaded(self) -> None:
        self.events.append("loaded")

    def unloaded(self, error: TailraceError) -> None:
        self.events.append(type(error))

    def metadata_changed(self, delta: object, image: object) -> None:
        self.events.append("metadata")


def note(name: str, number: int | None, response: Any = "done", **options: Any) -> Any:
    value = None if number is None else TransactionLogValue(producer_id=number, transaction_partitions=None)
    return lambda machine: Outcome(
        [CoordinatorRecord(TransactionLogKey(transactional_id=name), value)], response, **options
    )


def pair(**options: Any) -> CoordinatorPair[Numbers]:
    return CoordinatorPair(TOPIC, TRANSACTION_RECORDS, Numbers, **options)


@pytest.mark.spec("CO-01")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("readers", 1080410128),
        ("group-1", 293427299),
        ("fencing", 967719762),  # negative in Java
        ("ütf", 245870),
        ("😀", 1772899),
        ("polygenelubricants", 0),
    ],
)
def test_keys_hash_as_in_java(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@pytest.mark.spec("CO-02")
def test_a_command_is_answered_when_its_records_are_committed() -> None:
    both = pair()
    answers = both.ask(note("a", 1))
    assert answers == []
    assert both.leader.machine.numbers == {"a": 1}  # the next command builds on it
    both.replicate()
    assert answers == ["done"]


def test_alone_it_is_answered_at_once() -> None:
    both = pair(in_sync=(1,))
    assert both.ask(note("a", 1)) == ["done"]


@pytest.mark.spec("CO-02")
def test_an_answer_without_records_waits_for_what_it_may_tell_of() -> None:
    both = pair()
    both.ask(note("a", 1))
    answers: list[Any] = []
    both.leader.runtime.read("any", lambda machine: dict(machine.numbers), answers.append, answers.append)
    assert answers == []
    both.replicate()
    assert answers == [{"a": 1}]


@pytest.mark.spec("CO-02")
def test_replicas_that_are_held_back_fail_the_command_at_its_timeout() -> None:
    both = pair(offsets_commit_timeout_ms="5000")
    answers = both.ask(note("a", 1))
    both.pass_time(4999)
    assert answers == []
    both.pass_time(1)
    assert refusal(answers) is CoordinatorNotAvailableError


def test_an_error_of_a_command_leaves_everything_as_it_was() -> None:
    both = pair()

    def refused(machine: Numbers) -> Outcome:
        raise GroupIdNotFoundError("nothing of that name")

    assert refusal(both.ask(refused)) is GroupIdNotFoundError
    assert both.leader.log.log_end_offset == 0


def test_records_that_the_log_refuses_are_not_replayed() -> None:
    both = pair(log_config=LogConfig(max_message_bytes=100))
    told: list[Any] = []
    answers = both.ask(note("a" * 200, 1, then=told.append))
    assert refusal(answers) is UnknownServerError
    assert [type(each) for each in told] == [UnknownServerError]
    assert both.leader.machine.numbers == {}


def test_commands_of_answers_wait_for_their_turn() -> None:
    """No command sees a state between an append and its replay."""
    both = pair(in_sync=(1,))
    seen: list[Any] = []

    def then(error: TailraceError | None) -> None:
        assert error is None
        shard = both.leader.machine.shard
        shard.submit("inner", lambda: Outcome(response=dict(both.leader.machine.numbers)), seen.append)
        seen.append("then")

    assert both.ask(note("a", 1, then=then)) == ["done"]
    assert seen == ["then", {"a": 1}]


@pytest.mark.spec("CO-03", "CO-11")
def test_the_next_coordinator_has_the_same_state() -> None:
    both = pair()
    for number in range(50):
        both.ask(note(f"name-{number % 7}", number))
    both.ask(note("name-3", None))
    both.replicate()
    before, old = dict(both.leader.machine.numbers), both.leader
    both.fail_over()
    assert both.leader.machine.numbers == before
    assert both.leader.machine.offsets == list(range(51))
    assert refusal(_asked_at(old, both)) is NotCoordinatorError
    both.ask(note("later", 99))
    both.replicate()
    both.fail_over()
    assert both.leader.machine.numbers == {**before, "later": 99}


def _asked_at(replica: Any, both: CoordinatorPair[Numbers]) -> list[Any]:
    answers: list[Any] = []
    replica.runtime.submit("test", "any", note("x", 1), answers.append, answers.append)
    both.run()
    return answers


@pytest.mark.spec("CO-03")
def test_while_it_is_loaded_commands_may_be_tried_again() -> None:
    both = pair()
    both.ask(note("a", 1))
    both.replicate()
    answers: list[Any] = []
    registration = both.follower.partition
    both._epoch += 1
    registration.make_leader(_registration(both))
    both.second.runtime.role_changed(both.second.partition)
    both.second.runtime.submit("test", "any", note("b", 2), answers.append, answers.append)
    assert refusal(answers) is CoordinatorLoadInProgressError
    assert both.second.runtime.is_loading
    both.run()
    assert both.second.machine.numbers == {"a": 1}
    assert both.second.machine.events == ["loaded"]


def _registration(both: CoordinatorPair[Numbers]) -> Any:
    from tailrace.metadata.partition_registration import PartitionRegistration

    return PartitionRegistration((1, 2), (1, 2), 2, both._epoch, both._epoch, directories=(bytes(range(16)),) * 2)


@pytest.mark.spec("CO-03")
def test_who_waits_when_the_coordinator_moves_is_told_to_look_again() -> None:
    both = pair()
    answers = both.ask(note("a", 1))
    machine = both.leader.machine
    both.fail_over()
    assert refusal(answers) is NotCoordinatorError
    assert machine.events == ["loaded", NotCoordinatorError]
    assert both.leader.machine.numbers == {}  # it was never replicated


def test_a_newer_epoch_of_the_same_leader_loads_anew() -> None:
    both = pair()
    both.ask(note("a", 1))
    both.replicate()
    shard = both.leader.runtime.shard(0)
    assert shard is not None
    both.move(both.leader)
    assert shard.state is ShardState.CLOSED
    assert both.leader.machine.numbers == {"a": 1}
    renewed = both.leader.runtime.shard(0)
    assert renewed is not None
    assert renewed.epoch == shard.epoch + 1


@pytest.mark.parametrize("is_commit", [True, False])
def test_records_of_a_transaction_count_from_its_marker_on_also_after_a_move(is_commit: bool) -> None:
    both = pair(in_sync=(1,))
    producer = ProducerBatchId(7, 0)
    both.ask(note("a", 1), producer=producer)
    assert both.leader.machine.numbers == {}
    ended: list[Any] = []
    both.leader.runtime.marker(0, producer, is_commit, 0, 0, ended.append)
    both.run()
    assert ended == [None]
    expected = {"a": 1} if is_commit else {}
    assert both.leader.machine.numbers == expected
    both.replicate()
    both.fail_over()
    assert both.leader.machine.numbers == expected
    assert both.leader.machine.pending == {}


@pytest.mark.spec("CO-11")
def test_a_big_log_is_loaded_in_pieces() -> None:
    both = pair(in_sync=(1,))
    for number in range(300):
        both.ask(note(f"{number:>10000}", number))
    both.replicate()
    both.fail_over()
    assert both.leader.machine.numbers == {f"{number:>10000}": number for number in range(300)}


def test_timers_run_when_due_and_moving_one_replaces_it() -> None:
    both = pair(in_sync=(1,))
    machine = both.leader.machine
    timers, ran = machine.shard.timers, []

    def mark(what: str) -> Any:
        def command() -> None:
            ran.append((what, both.world.clock.now_ms()))

        return command

    began = both.world.clock.now_ms()
    timers.schedule("a", 100, mark("a"))
    timers.schedule("b", 50, mark("b"))
    timers.schedule("a", 200, mark("moved"))
    timers.schedule("c", 500, mark("late"))
    timers.schedule("c", 60, mark("early"))
    timers.schedule("d", 60, mark("never"))
    timers.cancel("d")
    for _ in range(60):
        both.pass_time(10)
    assert [(what, at - began) for what, at in ran] == [("b", 50), ("early", 60), ("moved", 200)]
    assert len(timers) == 0


def test_a_timer_whose_records_are_refused_is_tried_again() -> None:
    both = pair(in_sync=(1,))
    machine = both.leader.machine
    tries = []

    def command() -> Outcome:
        tries.append(both.world.clock.now_ms())
        if len(tries) < 3:
            raise CoordinatorNotAvailableError("not yet")
        outcome: Outcome = note("a", 1)(machine)
        return outcome

    machine.shard.timers.schedule("a", 10, command)
    for _ in range(20):
        both.pass_time(100)
    assert len(tries) == 3
    assert machine.numbers == {"a": 1}


def test_timers_end_with_their_shard() -> None:
    both = pair(in_sync=(1,))
    ran: list[Any] = []
    both.leader.machine.shard.timers.schedule("a", 10, lambda: ran.append("a"))
    both.fail_over()
    both.pass_time(100)
    assert ran == []


@pytest.mark.spec("CO-11")
def test_a_log_whose_last_records_were_cleaned_away_is_loaded() -> None:
    both = pair(in_sync=(1,))
    both.ask(note("a", 1))
    log = both.leader.log
    log.roll(log.log_end_offset + 5)  # the last segment is empty, and before it are offsets that no batch has
    both.move(both.first)
    assert both.leader.machine.numbers == {"a": 1}
    assert both.ask(note("b", 2)) == ["done"]


def test_topics_that_are_deleted_while_it_loads_are_told_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    both = pair(in_sync=(1,))
    deletion = MetadataDelta(both.image)
    deletion.deleted_topics.append(both.image.topics[TOPIC])
    both.ask(note("a", 1))
    runtime = both.leader.runtime
    with monkeypatch.context() as patched:
        patched.setattr(both, "run", lambda: None)
        both.move(both.first)
    assert runtime.is_loading
    runtime.metadata_changed(MetadataDelta(both.image))  # what it brought is seen in the image
    runtime.metadata_changed(deletion)
    both.run()
    assert both.leader.machine.events == ["loaded", "metadata"]
    runtime.metadata_changed(MetadataDelta(both.image))
    assert both.leader.machine.events == ["loaded", "metadata", "metadata"]


def test_a_defect_in_one_command_does_not_keep_the_others_waiting() -> None:
    both = pair(in_sync=(1,))
    answers: list[Any] = []

    def defective(machine: Numbers) -> Outcome:
        machine.shard.submit("other", lambda: Outcome(response="done"), answers.append)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        both.leader.runtime.submit("test", "any", defective, answers.append, answers.append)
    both.run()
    assert answers == ["done"]


def test_the_state_of_a_shard_that_has_ended_is_let_go() -> None:
    both = pair(in_sync=(1,))
    both.leader.machine.shard.timers.schedule("in an hour", 3_600_000, lambda: None)
    ended = weakref.ref(both.leader.machine)
    both.move(both.leader)
    gc.collect()
    assert ended() is None

"""Transactions of each client library: what is committed all see, what is aborted none, and a fenced one is refused."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from client_driver import FencedError, Message, RefusedError, Transactor

pytestmark = pytest.mark.compat

LAST = b"the last one"


def messages(*values: bytes) -> list[Message]:
    return [Message(value) for value in values]


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def seen_by(everybody: list[Any], topic: str, **options: Any) -> list[bytes]:
    """The values up to the last one, as all libraries read them; they must agree."""
    seen = {driver.name: driver.read_until(topic, LAST, **options) for driver in everybody}
    first = next(iter(seen.values()))
    assert seen == dict.fromkeys(seen, first)
    return first


def test_committed_is_read_and_aborted_is_not(
    transactor: Transactor, name: str, helper: Any, everybody: list[Any]
) -> None:
    helper.create_topic(name, partitions=2)
    writer = transactor.transactional(f"id-{name}")
    for n, end in enumerate((writer.commit, writer.abort, writer.abort, writer.commit)):
        writer.begin()
        for partition in (0, 1):
            writer.produce(name, messages(b"%d one" % n, b"%d two" % n), partition)
        end()
    writer.begin()
    for partition in (0, 1):
        writer.produce(name, messages(LAST), partition)
    writer.commit()
    writer.close()
    for partition in (0, 1):
        committed = [b"0 one", b"0 two", b"3 one", b"3 two", LAST]
        assert seen_by(everybody, name, partition=partition) == committed
    assert len(seen_by(everybody, name, committed=False)) == 9
    assert helper.bounds(name) == (0, 9 + 5)  # five ends have an offset each


def test_an_open_transaction_holds_back_what_comes_after(transactor: Transactor, topic: str, helper: Any) -> None:
    writer = transactor.transactional(f"id-{topic}")
    writer.begin()
    writer.produce(topic, messages(b"within"))
    helper.produce(topic, messages(b"after"))
    assert helper.read_to_end(topic, committed=True) == []
    assert helper.read_to_end(topic, committed=False) == [b"within", b"after"]
    writer.commit()
    eventually(lambda: helper.read_to_end(topic, committed=True) == [b"within", b"after"])
    writer.close()


def test_the_second_of_two_with_one_id_fences_the_first(
    transactor: Transactor, topic: str, everybody: list[Any]
) -> None:
    first = transactor.transactional(f"id-{topic}")
    first.begin()
    first.produce(topic, messages(b"of the first"))
    second = transactor.transactional(f"id-{topic}")
    second.begin()
    second.produce(topic, messages(b"of the second", LAST))
    with pytest.raises(FencedError):
        first.commit()
    second.commit()
    for writer in (first, second):
        writer.close()
    assert seen_by(everybody, topic) == [b"of the second", LAST]


def test_a_transaction_that_takes_too_long_is_aborted(transactor: Transactor, topic: str, helper: Any) -> None:
    slow = transactor.transactional(f"id-{topic}", timeout_ms=1000)
    slow.begin()
    slow.produce(topic, messages(b"too late"))
    helper.produce(topic, messages(b"after"))
    eventually(lambda: helper.read_to_end(topic, committed=True) == [b"after"])
    with pytest.raises(RefusedError):
        slow.commit()
    again = transactor.transactional(f"id-{topic}")
    again.begin()
    again.produce(topic, messages(b"in time"))
    again.commit()
    for writer in (slow, again):
        writer.close()
    assert helper.read_to_end(topic, committed=True) == [b"after", b"in time"]


def test_offsets_are_sent_with_a_transaction(transactor: Transactor, name: str, helper: Any) -> None:
    helper.create_topic(name, partitions=2)
    group = f"group-of-{name}"
    writer = transactor.transactional(f"id-{name}")
    for offset, end in ((5, writer.commit), (8, writer.abort), (11, writer.commit)):
        before = helper.committed(group, name)
        writer.begin()
        writer.produce(name, messages(b"x"))
        writer.send_offsets(group, name, {0: offset, 1: offset + 1})
        end()
        expected = before if end == writer.abort else {0: offset, 1: offset + 1}
        eventually(lambda expected=expected: transactor.committed(group, name) == expected)
        assert helper.committed(group, name) == expected
    writer.close()


def test_a_copy_with_aborts_is_exact(transactor: Transactor, topic: str, name: str, helper: Any) -> None:
    """Read, write and commit the offsets of what was read, in transactions of which some are given up."""
    source, target, group = f"source-{topic}", f"target-{topic}", f"copier-{name}"
    values = [b"%d" % n for n in range(100)]
    for each in (source, target):
        helper.create_topic(each)
    helper.produce(source, messages(*values))
    choice = random.Random(topic)
    offset, ends = 0, []
    writer = transactor.transactional(f"id-{topic}")
    while offset < len(values):
        count = min(choice.randint(1, 12), len(values) - offset)
        part = [record.value for record in helper.read(source, count, offset=offset)]
        writer.begin()
        writer.produce(target, messages(*part))
        writer.send_offsets(group, source, {0: offset + count})
        ends.append(choice.random() < 0.6)
        if ends[-1]:
            writer.commit()
            offset += count
        else:
            writer.abort()
        expected = {0: offset} if offset else {}
        eventually(lambda expected=expected: transactor.committed(group, source) == expected)
    writer.close()
    assert helper.read_until(target, values[-1]) == values
    assert helper.bounds(target)[1] > len(values) + len(ends) or all(ends)

"""Links to brokers that outlive a piece."""

from __future__ import annotations

import itertools

import pytest

from support.brokers.scripted import Log, ScriptedBroker
from support.spark.pieces import batches_of, options_for, rows_of
from support.spark.scripted_pieces import first_times, one_at_a_time, piece, quick, values
from tailrace.client.errors import (
    OFFSET_OUT_OF_RANGE,
)
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.spark.errors import DataLossError
from tailrace.spark.source.brokers import links

pytestmark = pytest.mark.usefixtures("swift")


def test_a_link_serves_one_piece_after_the_other(broker: ScriptedBroker, log: Log) -> None:
    for _ in range(5):
        assert rows_of(quick(broker), piece(0, 100)) == values((0, 100))
    assert broker.connections == 2
    assert len(broker.requests(MetadataRequest)) == 1


def test_a_link_that_the_broker_closed_is_opened_again_without_trouble(
    broker: ScriptedBroker, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rows_of(quick(broker), piece(0, 100)) == values((0, 100))
    broker.hang_up()
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("nothing is to be waited for"))
    assert rows_of(quick(broker), piece(0, 100)) == values((0, 100))


def test_a_reader_that_stops_early_leaves_no_answer_behind(broker: ScriptedBroker, log: Log) -> None:
    one_at_a_time(broker, log)
    found = batches_of(quick(broker), piece(0, 100), rows_per_batch=10)
    next(found)
    found.close()
    assert rows_of(quick(broker), piece(50, 60)) == values((50, 60))


def test_a_link_is_used_again_after_an_error(broker: ScriptedBroker, log: Log) -> None:
    first_times(broker, 1, lambda request: broker.fetch(request, {0: OFFSET_OUT_OF_RANGE}))
    log.start = 20
    with pytest.raises(DataLossError):
        rows_of(quick(broker), piece(0, 60))
    assert rows_of(quick(broker), piece(20, 60)) == values((20, 60))


def test_two_readers_at_a_time_have_a_link_each(broker: ScriptedBroker, log: Log) -> None:
    one_at_a_time(broker, log)
    first = batches_of(quick(broker), piece(0, 100), rows_per_batch=10)
    second = batches_of(quick(broker), piece(50, 100), rows_per_batch=10)
    taken = [batch for pair in itertools.zip_longest(first, second) for batch in pair if batch is not None]
    assert sum(batch.num_rows for batch in taken) == 150
    assert broker.connections == 4


def test_not_more_links_than_needed_are_kept() -> None:
    pool = links.LinkPool()
    made = [pool.borrow(links.purpose_of(options_for(f"localhost:{port}"))) for port in range(1, 12)]
    for link in made:
        pool.give_back(link)
    assert pool.borrow(made[-1].purpose) is made[-1]
    assert pool.borrow(made[0].purpose) is not made[0]
    pool.close()


def test_a_link_that_was_borrowed_before_a_fork_is_not_kept_by_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = links.LinkPool()
    link = pool.borrow(links.purpose_of(options_for("localhost:1")))
    monkeypatch.setattr("os.getpid", lambda: link.process_id + 1)
    pool.give_back(link)
    assert pool.is_empty

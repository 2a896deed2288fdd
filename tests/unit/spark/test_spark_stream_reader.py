"""The stream reader over an origin of which the test decides what is there."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import DataLossError, MissingTopicError, PipelineError
from tailrace.spark.options.positions import AtOffsets, AtTime, Latest, Position
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.options.subscription import Assigned, Pattern, Subscription, Topics
from tailrace.spark.source import stream_reader
from tailrace.spark.source.columns import Columns
from tailrace.spark.source.piece_reader import Piece
from tailrace.spark.source.ranges import Bounds
from tailrace.spark.source.stream_reader import StreamReader

ORDERS = TopicPartition("orders", 0)
MORE_ORDERS = TopicPartition("orders", 1)
PAYMENTS = TopicPartition("payments", 0)


class FakeOrigin:
    def __init__(self) -> None:
        self.there: dict[TopicPartition, tuple[str, Bounds]] = {ORDERS: ("first", Bounds(0, 10))}
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.commits = 0
        self.refuses_commits = False
        self.goes_next: list[TopicPartition] = []
        self.is_closed = False

    def partitions(self, subscription: Subscription) -> dict[TopicPartition, str | None]:
        if isinstance(subscription, Topics):
            missing = sorted(set(subscription.names) - {each.topic for each in self.there})
        elif isinstance(subscription, Pattern):
            missing = []
        else:
            missing = sorted(set(subscription.partitions) - {each.topic for each in self.there})  # first, as brokers do
            missing = missing or [str(each) for each in subscription.all() if each not in self.there]
        if missing:
            raise MissingTopicError(f"there is no {missing}", missing)
        return {each: topic_id for each, (topic_id, _) in self.there.items() if subscription.includes(each)}

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
        for each in self.goes_next:
            self.there.pop(each, None)
        wanted = list(partitions)
        if any(each not in self.there for each in wanted):
            raise PipelineError("a partition is not there")
        return {each: self.there[each][1] for each in wanted}

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {each: self.there[each][1].end for each in times_ms}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self.refuses_commits:
            raise PipelineError("no coordinator")
        self.commits += 1
        self.groups[group_id] = dict(offsets)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> FakeOrigin:
    origin = FakeOrigin()
    monkeypatch.setattr(stream_reader, "open_origin", lambda _: origin)
    return origin


def reader(topics: Subscription = Topics(("orders",)), **options: object) -> StreamReader:  # noqa: B008
    return StreamReader(SourceOptions(topics, brokers="somewhere:9092", **options), Columns())  # type: ignore[arg-type]


def offset(**topics: tuple[str, dict[str, int]]) -> dict[str, object]:
    return {topic: {"id": topic_id, "offsets": numbers} for topic, (topic_id, numbers) in topics.items()}


def planned(stream: StreamReader, start: dict[str, object], end: dict[str, object]) -> list[tuple[str, int, int]]:
    found = []
    for piece in stream.partitions(start, end):
        assert isinstance(piece, Piece)
        found.append((str(piece.offsets.partition), piece.offsets.start, piece.offsets.end))
    return found


def test_a_stream_begins_where_it_is_told_and_goes_on_behind_what_it_has(origin: FakeOrigin) -> None:
    stream = reader()
    start = stream.initialOffset()
    assert start == offset(orders=("first", {"0": 0}))
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert end == offset(orders=("first", {"0": 10}))
    assert planned(stream, start, end) == [("orders-0", 0, 10)]
    assert stream.reportLatestOffset() == end
    origin.there[ORDERS] = ("first", Bounds(0, 25))
    assert planned(stream, end, stream.latestOffset(end, ReadAllAvailable())) == [("orders-0", 10, 25)]
    assert reader(starting=Latest()).initialOffset() == offset(orders=("first", {"0": 25}))


def test_nothing_new_is_the_same_offset_and_no_tasks(origin: FakeOrigin) -> None:
    stream = reader()
    end = offset(orders=("first", {"0": 10}))
    assert stream.latestOffset(end, ReadAllAvailable()) == end
    assert stream.partitions(end, end) == []


def test_after_a_restart_partitions_come_from_the_two_offsets_alone(origin: FakeOrigin) -> None:
    origin.there.clear()  # whoever asked it would fail
    start, end = offset(orders=("first", {"0": 3, "1": 0})), offset(orders=("first", {"0": 7, "1": 5}))
    assert planned(reader(), start, end) == [("orders-0", 3, 7), ("orders-1", 0, 5)]


def test_partitions_and_topics_that_appear_are_read_from_their_start(origin: FakeOrigin) -> None:
    stream = reader(Topics(("orders", "payments")))
    start = offset(orders=("first", {"0": 10}))
    origin.there |= {MORE_ORDERS: ("first", Bounds(0, 4)), PAYMENTS: ("other", Bounds(100, 103))}
    end = stream.latestOffset(start, ReadAllAvailable())
    assert planned(stream, start, end) == [("orders-1", 0, 4), ("payments-0", 100, 103)]


def test_a_new_partition_of_a_followed_topic_that_has_lost_its_beginning_is_loss(origin: FakeOrigin) -> None:
    start = offset(orders=("first", {"0": 10}))
    origin.there[MORE_ORDERS] = ("first", Bounds(2, 4))
    end = offset(orders=("first", {"0": 10, "1": 4}))
    with pytest.raises(DataLossError, match="orders-1: offsets 0 to 1 are lost"):
        reader().partitions(start, end)
    assert planned(reader(fail_on_data_loss=False), start, end) == [("orders-1", 2, 4)]


def test_a_topic_made_again_is_loss_and_otherwise_read_from_its_start(origin: FakeOrigin) -> None:
    start = offset(orders=("first", {"0": 10}))
    origin.there[ORDERS] = ("second", Bounds(0, 30))
    with pytest.raises(DataLossError, match="deleted and made again"):
        reader().latestOffset(start, ReadAllAvailable())
    stream = reader(fail_on_data_loss=False)
    assert planned(stream, start, stream.latestOffset(start, ReadAllAvailable())) == [("orders-0", 0, 30)]


def test_a_log_that_shrank_is_loss_and_otherwise_goes_on_at_its_end(origin: FakeOrigin) -> None:
    start = offset(orders=("first", {"0": 15}))
    with pytest.raises(DataLossError, match="offsets 10 to 14 are lost"):
        reader().latestOffset(start, ReadAllAvailable())
    stream = reader(fail_on_data_loss=False)
    end = stream.latestOffset(start, ReadAllAvailable())
    assert end == offset(orders=("first", {"0": 10}))
    assert stream.partitions(start, end) == []


@pytest.mark.parametrize("subscribed", [Topics(("orders", "payments")), Assigned({"orders": (0,), "payments": (0,)})])
def test_a_topic_that_goes_while_it_is_read_is_loss_and_no_wrong_name(
    origin: FakeOrigin, subscribed: Subscription
) -> None:
    origin.there[PAYMENTS] = ("other", Bounds(0, 5))
    start = reader(subscribed).initialOffset()
    del origin.there[PAYMENTS]
    with pytest.raises(DataLossError, match="payments"):
        reader(subscribed).latestOffset(start, ReadAllAvailable())
    end = reader(subscribed, fail_on_data_loss=False).latestOffset(start, ReadAllAvailable())
    assert end == offset(orders=("first", {"0": 10}))
    with pytest.raises(MissingTopicError):
        reader(subscribed).initialOffset()


def test_topics_and_partitions_that_go_together_are_all_left_behind(origin: FakeOrigin) -> None:
    subscribed = Assigned({"orders": (0, 1), "payments": (0,)})
    start = offset(orders=("first", {"0": 10, "1": 3}), payments=("other", {"0": 5}))
    end = reader(subscribed, fail_on_data_loss=False).latestOffset(start, ReadAllAvailable())
    assert end == offset(orders=("first", {"0": 10}))


@pytest.mark.parametrize("subscribed", [Topics(("orders", "payments")), Pattern("orders|payments")])
def test_a_topic_that_came_and_went_before_it_was_read_is_lost(origin: FakeOrigin, subscribed: Subscription) -> None:
    """After a restart, say: Spark asks for the batch that was under way, whose end has the topic."""
    start, end = offset(orders=("first", {"0": 4})), offset(orders=("first", {"0": 9}), payments=("other", {"0": 5}))
    with pytest.raises(DataLossError, match="payments"):
        reader(subscribed).partitions(start, end)
    assert planned(reader(subscribed, fail_on_data_loss=False), start, end) == [("orders-0", 4, 9)]


def test_a_new_topic_that_has_lost_all_that_was_to_be_read_is_loss(origin: FakeOrigin) -> None:
    origin.there[PAYMENTS] = ("other", Bounds(7, 8))
    start, end = offset(orders=("first", {"0": 10})), offset(orders=("first", {"0": 10}), payments=("other", {"0": 5}))
    with pytest.raises(DataLossError, match="payments-0: offsets 0 to 4 are lost: the log begins at 7"):
        reader(Pattern(".")).partitions(start, end)
    assert planned(reader(Pattern("."), fail_on_data_loss=False), start, end) == []


def test_a_topic_that_goes_between_two_questions_is_lost_and_nothing_else(origin: FakeOrigin) -> None:
    origin.there[PAYMENTS] = ("other", Bounds(0, 5))
    start = offset(orders=("first", {"0": 3}), payments=("other", {"0": 5}))
    origin.goes_next = [PAYMENTS]
    end = reader(Pattern("."), fail_on_data_loss=False).latestOffset(start, ReadAllAvailable())
    assert end == offset(orders=("first", {"0": 10}))


def test_a_batch_that_waits_for_more_does_not_wait_with_a_log_that_shrank(
    origin: FakeOrigin, caplog: pytest.LogCaptureFixture
) -> None:
    """Once the log has grown again nobody could tell, and what it has below the old end would be skipped."""
    stream = reader(fail_on_data_loss=False, min_offsets_per_trigger=100)
    limit = stream.getDefaultReadLimit()
    stream.latestOffset(offset(orders=("first", {"0": 10})), limit)
    start = offset(orders=("first", {"0": 15}))
    assert stream.latestOffset(start, limit) == offset(orders=("first", {"0": 10}))
    stream.latestOffset(start, limit)
    assert caplog.text.count("are lost") == 1, "Spark asks again and again"


def test_what_is_missing_is_told_once(origin: FakeOrigin, caplog: pytest.LogCaptureFixture) -> None:
    stream = reader(Topics(("orders", "payments")), fail_on_data_loss=False)
    end = offset(orders=("first", {"0": 10}))
    for _ in range(3):
        assert stream.latestOffset(end, ReadAllAvailable()) == end
    assert caplog.text.count("there is no") == 1


def test_an_error_of_loss_says_how_to_go_on(origin: FakeOrigin) -> None:
    """Spark shows its text and nothing else."""
    with pytest.raises(DataLossError) as caught:
        reader().latestOffset(offset(orders=("first", {"0": 15})), ReadAllAvailable())
    assert "failOnDataLoss=false" in str(pickle.loads(pickle.dumps(caught.value)))


def test_limits_are_applied_unless_everything_is_asked_for(origin: FakeOrigin) -> None:
    stream = reader(max_offsets_per_trigger=4)
    start = stream.initialOffset()
    assert stream.getDefaultReadLimit() == ReadMaxRows(4)
    assert stream.latestOffset(start, ReadMaxRows(4)) == offset(orders=("first", {"0": 4}))
    assert stream.latestOffset(start, ReadAllAvailable()) == offset(orders=("first", {"0": 10}))


def test_a_batch_waits_for_enough_but_not_longer_than_the_delay(
    origin: FakeOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(stream_reader.time, "monotonic", lambda: now_s[0])
    stream = reader(min_offsets_per_trigger=20, max_trigger_delay_ms=5_000)
    start, limit = stream.initialOffset(), stream.getDefaultReadLimit()
    assert limit == ReadMinRows(20)
    end = stream.latestOffset(start, limit)
    assert end != start, "the first batch of a run does not wait"
    origin.there[ORDERS] = ("first", Bounds(0, 12))
    assert stream.latestOffset(end, limit) == end
    now_s[0] += 5
    assert stream.latestOffset(end, limit) == offset(orders=("first", {"0": 12}))


def test_available_now_ends_at_what_was_there_and_does_not_wait_for_more(origin: FakeOrigin) -> None:
    stream = reader(max_offsets_per_trigger=6, min_offsets_per_trigger=5)
    start = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    origin.there[ORDERS] = ("first", Bounds(0, 1000))
    seen = [start]
    while len(seen) < 2 or seen[-1] != seen[-2]:
        seen.append(stream.latestOffset(seen[-1], stream.getDefaultReadLimit()))
    assert [each["orders"]["offsets"]["0"] for each in seen] == [0, 6, 10, 10]


@pytest.mark.parametrize("started", [Latest(), AtTime(5)])
def test_what_comes_between_preparing_available_now_and_its_start_is_no_loss(
    origin: FakeOrigin, started: Position
) -> None:
    stream = reader(Pattern("."), starting=started)
    stream.prepareForTriggerAvailableNow()
    origin.there = {ORDERS: ("first", Bounds(0, 12)), PAYMENTS: ("other", Bounds(0, 3))}
    start = stream.initialOffset()
    assert start == offset(orders=("first", {"0": 12}), payments=("other", {"0": 3}))
    origin.there[ORDERS] = ("first", Bounds(0, 20))
    assert stream.latestOffset(start, ReadAllAvailable()) == start


def test_available_now_does_not_end_at_an_offset_that_no_log_has(origin: FakeOrigin) -> None:
    stream = reader(starting=AtOffsets({ORDERS: 50}), fail_on_data_loss=False)
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert end == offset(orders=("first", {"0": 10}))
    assert stream.latestOffset(end, ReadAllAvailable()) == end


def test_available_now_tells_a_wrong_name_from_a_topic_that_is_lost(origin: FakeOrigin) -> None:
    first, again = reader(Topics(("ordres",))), reader(Topics(("ordres",)))
    first.prepareForTriggerAvailableNow()
    with pytest.raises(MissingTopicError, match="ordres"):
        first.initialOffset()
    again.prepareForTriggerAvailableNow()
    with pytest.raises(DataLossError, match="ordres"):
        again.latestOffset(offset(ordres=("first", {"0": 3})), ReadAllAvailable())


def test_available_now_ends_whatever_goes_or_shrinks_meanwhile(origin: FakeOrigin) -> None:
    origin.there[PAYMENTS] = ("other", Bounds(0, 9))
    stream = reader(Topics(("orders", "payments")), max_offsets_per_trigger=8, fail_on_data_loss=False)
    start = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    origin.there = {ORDERS: ("first", Bounds(0, 2)), TopicPartition("more", 0): ("third", Bounds(0, 3))}
    seen = [start]
    while len(seen) < 2 or seen[-1] != seen[-2]:
        seen.append(stream.latestOffset(seen[-1], stream.getDefaultReadLimit()))
        assert len(seen) < 9
    assert seen[-1] == offset(orders=("first", {"0": 10}), payments=("other", {"0": 9}))


def test_progress_is_told_from_commit_and_from_the_next_start_but_once(origin: FakeOrigin) -> None:
    stream = reader(commit_group="watchers")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    stream.latestOffset(end, ReadAllAvailable())
    assert origin.groups == {"watchers": {ORDERS: 10}}
    commits = origin.commits
    stream.commit(end)
    assert origin.commits == commits


def test_a_group_that_cannot_be_told_does_not_stop_a_query(
    origin: FakeOrigin, caplog: pytest.LogCaptureFixture
) -> None:
    origin.refuses_commits = True
    reader(commit_group="watchers").commit(offset(orders=("first", {"0": 10})))
    assert "not committed to group watchers: no coordinator" in caplog.text


def test_an_idle_stream_tells_its_group_again_now_and_then_and_a_refusal_not_at_every_turn(
    origin: FakeOrigin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker forgets after days; Spark asks an idle stream a hundred times a second."""
    now_s = [100.0]
    monkeypatch.setattr(stream_reader.time, "monotonic", lambda: now_s[0])
    stream, end = reader(commit_group="watchers"), offset(orders=("first", {"0": 10}))
    for _ in range(3):
        stream.latestOffset(end, ReadAllAvailable())
    assert origin.commits == 1
    now_s[0] += stream_reader.TELL_AGAIN_S
    stream.latestOffset(end, ReadAllAvailable())
    assert origin.commits == 2
    origin.refuses_commits = True
    now_s[0] += stream_reader.TELL_AGAIN_S
    for _ in range(5):
        stream.latestOffset(end, ReadAllAvailable())
    assert caplog.text.count("not committed") == 1
    now_s[0] += stream_reader.RETRY_TELLING_S
    origin.refuses_commits = False
    stream.latestOffset(end, ReadAllAvailable())
    assert origin.commits == 3


def test_tasks_get_the_reader_without_its_connections(origin: FakeOrigin) -> None:
    stream = reader(commit_group="watchers")
    stream.initialOffset()
    assert pickle.loads(pickle.dumps(stream)).__dict__["_open"] is None
    stream.stop()
    assert origin.is_closed

"""Options of the sink: those of Spark's Kafka sink mean the same, and what contradicts itself is refused."""

from __future__ import annotations

import pickle

import pytest

from tailrace.spark.errors import OptionError
from tailrace.spark.options.client_keys import SINK_KEYS
from tailrace.spark.options.sink import SinkOptions, sink_options

HERE = {"kafka.bootstrap.servers": "localhost:9092"}
EXACTLY_ONCE = {"delivery": "exactly-once", "sinkId": "orders-sink"}


def batch(**more: str) -> SinkOptions:
    return sink_options({**HERE, **named(more)}, streaming=False, overwrite=False)


def stream(**more: str) -> SinkOptions:
    return sink_options({**HERE, **named(more)}, streaming=True, overwrite=False)


def named(more: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in more.items()}


def refused(*, streaming: bool = False, **more: str) -> str:
    with pytest.raises(OptionError) as caught:
        sink_options({**HERE, **named(more)}, streaming=streaming, overwrite=False)
    return str(caught.value)


def test_defaults() -> None:
    options = batch()
    assert (options.brokers, options.topic) == ("localhost:9092", None)
    assert (options.delivery, options.is_exactly_once, options.transactional) == ("at-least-once", False, False)
    assert (options.acks, options.idempotent, options.codec) == (-1, True, "none")
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_are_the_same_in_any_case_and_sparks_own_pass() -> None:
    given = {"KAFKA.BOOTSTRAP.SERVERS": "h:1", "TOPIC": " t ", "checkpointlocation": "/c", "queryname": "q"}
    assert sink_options(given, streaming=True, overwrite=False).topic == "t"


def test_headers_are_written_where_there_is_a_column_of_them_whatever_is_said() -> None:
    assert batch(includeHeaders="false") == batch(includeHeaders="true") == batch()


def test_brokers_must_be_given_and_a_path_must_not() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is not given"):
        sink_options({"topic": "t"}, streaming=False, overwrite=False)
    assert "option path is '/x'" in refused(path="/x")


def test_overwrite_is_refused_for_batches_and_means_nothing_for_streams() -> None:
    with pytest.raises(OptionError, match=r"overwrite is refused.*must be append"):
        sink_options(HERE, streaming=False, overwrite=True)
    assert sink_options(HERE, streaming=True, overwrite=True) == stream()  # complete mode


@pytest.mark.parametrize("topic", ["a b", "..", "x" * 250, "ü"])
def test_topics_that_cannot_be(topic: str) -> None:
    assert f"option topic is {topic[:200]!r}"[:60] in refused(topic=topic)


def test_exactly_once_needs_a_sink_id_and_a_stream() -> None:
    options = stream(**EXACTLY_ONCE, acceptPartialEpoch="7")
    assert (options.is_exactly_once, options.sink_id, options.accept_partial_epoch) == (True, "orders-sink", 7)
    assert "needs a sinkId" in refused(streaming=True, delivery="exactly-once")
    assert "streams only; a batch has transactional=true" in refused(**EXACTLY_ONCE)
    assert "must be at-least-once or exactly-once" in refused(streaming=True, delivery="exactly_once")


def test_what_has_no_meaning_is_refused() -> None:
    assert "sinkId is 's', and has no meaning without delivery=exactly-once" in refused(streaming=True, sinkId="s")
    assert "without transactional=true" in refused(sinkId="s")
    assert "acceptPartialEpoch=3" in refused(streaming=True, acceptPartialEpoch="3")
    assert "batches only" in refused(streaming=True, transactional="true")
    assert "option sinkId" in refused(streaming=True, delivery="exactly-once", sinkId="a/b")


def test_batches_can_be_all_or_none() -> None:
    assert batch(transactional="true").transactional
    assert batch(transactional="true", sinkId="nightly").sink_id == "nightly"


@pytest.mark.parametrize(("given", "acks"), [("all", -1), ("-1", -1), ("1", 1), ("0", 0)])
def test_acks(given: str, acks: int) -> None:
    options = batch(kafka__acks=given)
    assert (options.acks, options.idempotent) == (acks, acks == -1)


def test_acks_and_idempotence_that_contradict_each_other() -> None:
    assert "must be all or -1 or 1 or 0" in refused(kafka__acks="2")
    assert "needs kafka.acks=all" in refused(kafka__acks="1", kafka__enable__idempotence="true")
    assert not batch(kafka__enable__idempotence="false").idempotent
    assert "transactions need" in refused(transactional="true", kafka__acks="1")
    assert "transactions need" in refused(streaming=True, **EXACTLY_ONCE, kafka__enable__idempotence="false")


def test_compression() -> None:
    options = batch(kafka__compression__type="zstd", kafka__compression__zstd__level="7")
    assert (options.codec, options.level) == ("zstd", 7)
    assert batch(kafka__compression__type="lz4", kafka__compression__zstd__level="7").level is None
    assert batch(kafka__compression__type="gzip", kafka__compression__gzip__level="-1").level is None
    assert "must be none or gzip or snappy or lz4 or zstd" in refused(kafka__compression__type="brotli")
    assert "from 1 to 9" in refused(kafka__compression__type="gzip", kafka__compression__gzip__level="0")
    assert "compression.zstd.level" in refused(kafka__compression__zstd__level="23")


def test_sizes_and_times() -> None:
    options = batch(
        kafka__batch__size="100",
        kafka__max__request__size="200",
        kafka__buffer__memory="300",
        kafka__delivery__timeout__ms="400",
        kafka__request__timeout__ms="500",
        kafka__client__id="me",
    )
    assert (options.batch_bytes, options.request_bytes, options.buffered_bytes) == (100, 200, 300)
    assert (options.delivery_timeout_ms, options.client.request_timeout_ms, options.client.client_id) == (
        400,
        500,
        "me",
    )
    assert batch(kafka__batch__size="0").batch_bytes == 1
    assert "kafka.batch.size" in refused(kafka__batch__size="-1")


@pytest.mark.parametrize("key", sorted(SINK_KEYS.refused))
def test_keys_that_would_change_rows_are_refused(key: str) -> None:
    assert f"option kafka.{key} is not supported" in refused(**{f"kafka.{key}": "x"})


def test_keys_stay_where_they_belong() -> None:
    assert "must be false" in refused(kafka__partitioner__ignore__keys="true")
    assert batch(kafka__partitioner__ignore__keys="false") == batch()
    assert batch(kafka__linger__ms="5") == batch()
    assert "hunter2" not in refused(kafka__ssl__key__password="hunter2")
    assert "option startingOffsets is one of the source" in refused(startingOffsets="earliest")
    assert "no option topci; did you mean topic?" in refused(topci="t")
    assert "did you mean kafka.linger.ms?" in refused(kafka__liger__ms="5")
    assert "did you mean kafka.acks?" in refused(acks="all")

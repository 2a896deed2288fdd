"""Our compaction and Kafka's, on byte copies of one directory that a real broker has filled.

A broker creates the topics of `support.kafka.filled_topics` and stops. In one copy of its data directory Kafka's own
cleaner works, in another one ours; then each topic gets one more batch, the same in both, and both clean
again, and so on; at last each cleans what the other has left. Further copies are compacted by our
command, and the broker is started on them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from support.compaction.expected_dump import Clean, aborted_batches, compacted, data_records, emptied, shape, table
from support.kafka.dump_view import Fields
from support.kafka.tools import check_indexes, dump_log_segments, why_silent
from support.logs.log_writer import CODECS, Sent

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from golden import wire
    from golden.broker import Broker, Message
    from support.compaction.threaded_cleaner import OurBroker
    from support.kafka.client import consume_all, free_port
    from support.kafka.compaction_stages import (
        Copy,
        Stage,
        cleaner_points,
        copy_of,
        dumped,
        end_of_cleaning,
        ends_of_cleaning,
        open_transactions,
    )
    from support.kafka.filled_topics import (
        COMPACTED,
        CONTROL,
        HELD_BACK,
        KEYS_PER_PASS,
        LARGE,
        TOPICS,
        fill,
        now_ms,
        round_batch,
    )

from tailrace.record.builder import batch_of
from tailrace.record.shallow import batches

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]

ROUNDS = 6
DEDUPE_BYTES = 4 << 20
NO_CLEANER = {"log.cleaner.enable": "false"}
CLEANER = {
    "log.cleaner.dedupe.buffer.size": str(DEDUPE_BYTES),
    "log.cleaner.io.buffer.load.factor": str((KEYS_PER_PASS + 0.5) / (DEDUPE_BYTES // 24)),
    "log.cleaner.backoff.ms": "50",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, kafka_jars: None) -> Iterator[Path]:
    """The folder of a broker that was stopped."""
    folder = tmp_path_factory.mktemp("filled") / "kafka"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")  # most of the time goes into starting
        with Broker(folder, free_port(), NO_CLEANER) as broker:
            fill(broker)
            broker.stop()
        yield folder


@pytest.fixture(scope="module")
def written(filled: Path) -> Stage:
    """As it was filled."""
    (stage,) = dumped([copy_of(filled / "log", filled.parent / "as-filled")])
    return stage


def copied(folder: Path, name: str) -> Path:
    return Path(shutil.copytree(folder, folder.parent / name))


# -- two cleaners ----------------------------------------------------------------------------------------------------


def cleaned_by_kafka(folder: Path, ends: dict[str, int], rounds: range) -> list[Copy]:
    """`ends` are to where each topic can be cleaned; kept up to date, for who goes on."""
    copies = []
    with Broker(folder, free_port(), CLEANER) as broker:
        for number in rounds:
            for topic, end in ends.items():
                broker.wait_for_cleaner(topic, end)
            copies.append(copy_of(broker.log_dir, folder.parent / f"{folder.name}-{number}"))
            if number == 0:
                check_kafka_finds_fault_with_itself(broker.partition_dir("mixed"), folder.parent / "once-cleaned")
            for topic in TOPICS:
                base = wire.produce(broker.port, topic, round_batch(number))
                ends[topic] = ends[topic] if topic in HELD_BACK else base
        broker.stop()
    return copies


def cleaned_by_us(folder: Path, ends: dict[str, int], rounds: range) -> list[Copy]:
    copies = []
    with OurBroker(folder / "log", {name: topic.settings for name, topic in TOPICS.items()}, CLEANER) as broker:
        for number in rounds:
            broker.clean(ends)
            copies.append(copy_of(folder / "log", folder.parent / f"{folder.name}-{number}"))
            for topic in TOPICS:
                base = broker.append(topic, round_batch(number))
                ends[topic] = ends[topic] if topic in HELD_BACK else base
    return copies


def check_kafka_finds_fault_with_itself(directory: Path, copy: Path) -> None:
    """With time index entries of batches without records. We make them too, and allow no other fault."""
    shutil.copytree(directory, copy)
    indexes = sorted(copy.glob("*.timeindex"))[:-1]
    dumps = dump_log_segments(indexes, allow_index_complaints=True)
    complaints = [line for dump in dumps.values() for line in dump.index_complaints]
    assert any(line.endswith("log timestamp: -1") for line in complaints)


@pytest.mark.spec("LM-05", "LM-13", "LM-14", "LM-16", "LM-20", "LM-21", "LM-42", "LM-43")
@pytest.mark.spec("RF-13", "RF-14", "RF-15")
def test_both_cleaners_keep_the_same(filled: Path, written: Stage) -> None:
    """And where the other's checkpoint says, each goes on."""
    theirs, ours = copied(filled, "theirs"), copied(filled, "ours")
    ends, same_ends = ends_of_cleaning(written), ends_of_cleaning(written)
    by_kafka = cleaned_by_kafka(theirs, ends, range(ROUNDS))
    by_us = cleaned_by_us(ours, same_ends, range(ROUNDS))
    assert ends == same_ends
    by_us += cleaned_by_us(theirs, ends, range(ROUNDS, ROUNDS + 1))
    by_kafka += cleaned_by_kafka(ours, same_ends, range(ROUNDS, ROUNDS + 1))
    stages = dumped([*by_kafka, *by_us])
    kafka_stages, our_stages = stages[: len(by_kafka)], stages[len(by_kafka) :]
    check_there_was_everything(written, our_stages)
    for kafka_stage, our_stage in zip(kafka_stages, our_stages, strict=True):
        assert our_stage.cleaner_points == kafka_stage.cleaner_points
        for topic in TOPICS:
            their_batches, our_batches = kafka_stage.batches(topic), our_stage.batches(topic)
            assert data_records(our_batches) == data_records(their_batches), topic
            assert our_stage.aborted[topic] == kafka_stage.aborted[topic], topic
            check_same_batches(our_batches, their_batches, topic)


def check_same_batches(ours: Sequence[Fields], theirs: Sequence[Fields], topic: str) -> None:
    """With the same headers. But for one thing: of a producer of which nothing is left but a marker, whose time has
    come, Kafka keeps an empty batch, from which a restart does not learn the producer's epoch. We keep the marker."""
    assert [batch["baseOffset"] for batch in ours] == [batch["baseOffset"] for batch in theirs], topic
    for our_batch, their_batch in zip(ours, theirs, strict=True):
        wanted = comparable(their_batch)
        if their_batch["isControl"] and not their_batch["count"]:
            assert comparable(emptied(our_batch)) == wanted, topic
        else:
            assert comparable(our_batch) == wanted, topic


def comparable(batch: Fields) -> Fields:
    """Without what depends on the moment of the clean, and on who led."""
    fields = shape(batch)
    return fields | {"deleteHorizonMs": fields["deleteHorizonMs"] is not None, "partitionLeaderEpoch": None}


def check_there_was_everything(written: Stage, by_us: Sequence[Stage]) -> None:
    """Every codec, batches that lost some or all records, tombstones and markers that went and that stayed."""
    first, second, third = by_us[:3]
    for topic in TOPICS:
        assert len(data_records(first.batches(topic))) < len(data_records(written.batches(topic))) * 3 / 4
        assert table(first.batches(topic)) == table(written.batches(topic))
    for topic in ("mixed", "expiring"):
        lost = [each for each in first.batches(topic) if each["lastOffset"] - each["baseOffset"] >= each["count"]]
        assert {batch["compresscodec"] for batch in lost if batch["count"]} == set(CODECS)
        assert any(not batch["count"] and batch["producerId"] >= 0 for batch in lost)
    tombstones = {offset for offset, (_, value) in data_records(first.batches("mixed")).items() if value is None}
    assert len(tombstones) > 5
    assert len(tombstones & data_records(second.batches("mixed")).keys()) > 5
    assert not tombstones & data_records(second.batches("expiring")).keys()
    for topic in ("expiring", "copied"):
        markers = [sum(batch["isControl"] for batch in stage.batches(topic)) for stage in (first, third)]
        assert markers[0] > markers[1], topic
    for topic in HELD_BACK:
        assert first.cleaner_points[topic] == third.cleaner_points[topic] < written.bases(topic)[-1]
    assert len({key for key, _ in data_records(written.batches("many-keys")).values()}) > 2 * KEYS_PER_PASS


# -- a broker on directories that were compacted while it was stopped --------------------------------------------------


@pytest.fixture(scope="module")
def compacted_offline(filled: Path, written: Stage) -> Path:
    """The folder of the broker; the topics in it were compacted, all but the one that is to be damaged."""
    folder = copied(filled, "offline")
    topics = [part for topic in COMPACTED for part in ("--topic", topic)]
    command = [sys.executable, "-m", "tailrace", "log", "compact", str(folder / "log"), *topics]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert cleaner_points(folder / "log") == offline_ends(written)
    assert (folder / "log" / ".kafka_cleanshutdown").exists()
    indexes = [file for topic in COMPACTED for file in (folder / "log" / f"{topic}-0").glob("*index")]
    assert (folder / "log" / f"{LARGE}-0" / f"{0:020}.index").stat().st_size > 4 * 8
    check_indexes([file for file in indexes if file.suffix != ".txnindex"], allow_index_complaints=True)
    return folder


def offline_ends(written: Stage) -> dict[str, int]:
    """Who compacts offline knows of no lag."""
    return {topic: end_of_cleaning(written, topic) for topic in COMPACTED}


def telling_broker(folder: Path) -> Broker:
    reason = why_silent()
    if reason:
        pytest.skip(reason)
    return Broker(folder, free_port(), NO_CLEANER, tells=True)


def told_by_storage(broker: Broker, topic: str) -> list[str]:
    """What the broker has said of the files of a topic."""
    lines = broker.server_log.read_text().splitlines()
    said = [line for line in lines if " org.apache.kafka.storage." in line]
    return [line for line in said if re.search(rf"(?<![\w-]){topic}-0(?!\w)", line)]


def check_served(broker: Broker, written: Stage) -> None:
    """What a plain model says must survive, to consumers of both kinds."""
    ends = {topic: written.end(topic) for topic in COMPACTED}
    stable = {topic: min(open_transactions(written.batches(topic)), default=end) for topic, end in ends.items()}
    uncommitted = consume_all(broker, ends, "read_uncommitted")
    committed = consume_all(broker, stable, "read_committed")
    for topic, end in offline_ends(written).items():
        left = compacted(written.batches(topic), Clean(0, end, now_ms(), delete_retention_ms=1))
        assert texts_of(uncommitted[topic]) == data_records(left), topic
        aborted = aborted_batches(written.batches(topic))
        decided = [batch for batch in left if batch["baseOffset"] < stable[topic]]
        wanted = [batch for batch in decided if batch["baseOffset"] not in aborted]
        assert texts_of(committed[topic]) == data_records(wanted), topic
        answer = wire.fetch(broker.port, topic, 0, 1, read_committed=True)
        assert (answer.last_stable_offset, answer.high_watermark) == (stable[topic], ends[topic])


def check_knows_producer(broker: Broker, written: Stage) -> None:
    """Nothing of it is left but an empty batch. Its last batch sent again is found, a gap refused, the next taken."""
    (last,) = (batch for batch in written.batches("mixed") if "fleeting" in str(batch["records"]))
    answer = wire.fetch(broker.port, "mixed", 0, 1 << 20, read_committed=False)
    assert {batch.base_offset: batch.record_count for batch in batches(answer.records)}[last["baseOffset"]] == 0
    records = [Message(now_ms(), record["key"].encode(), b"again") for record in last["records"]]

    def send(sequence: int) -> int:
        who = {"producer_id": last["producerId"], "producer_epoch": last["producerEpoch"], "base_sequence": sequence}
        return wire.produce(broker.port, "mixed", bytes(batch_of(records, **who)))

    assert send(last["baseSequence"]) == last["baseOffset"]
    with pytest.raises(RuntimeError, match="error 45"):  # OUT_OF_ORDER_SEQUENCE_NUMBER
        send(last["lastSequence"] + 2)
    assert send(last["lastSequence"] + 1) == written.end("mixed")


def texts_of(found: Mapping[int, Sent]) -> dict[int, tuple[str, str | None]]:
    return {
        offset: ((record.key or b"").decode(), None if record.value is None else record.value.decode())
        for offset, record in found.items()
    }


def contents(log_dir: Path, *suffixes: str) -> dict[Path, bytes]:
    """Of files of the compacted topics."""
    files = [file for topic in COMPACTED for file in (log_dir / f"{topic}-0").iterdir() if file.suffix in suffixes]
    return {file: file.read_bytes() for file in files}


@pytest.mark.spec("LM-13", "LM-38")
def test_with_its_marker_kafka_believes_a_compacted_directory(compacted_offline: Path, written: Stage) -> None:
    """No index is made anew, and producers are those of our snapshot at the end; in `CONTROL` two indexes are."""
    folder = copied(compacted_offline, "with-marker")
    control = folder / "log" / f"{CONTROL}-0"
    min(control.glob("*.index")).unlink()
    spoiled = max(file for file in control.glob("*.txnindex") if file.stat().st_size)
    spoiled.write_bytes(spoiled.read_bytes()[:18] + bytes(8) + spoiled.read_bytes()[26:])  # ends before the segment
    before = contents(folder / "log", ".log")
    with telling_broker(folder) as broker:
        assert "since clean shutdown file was found" in broker.server_log.read_text()
        faults = "\n".join(told_by_storage(broker, CONTROL))
        assert "Could not find offset index file" in faults
        assert f"Found a corrupted index file corresponding to log file {spoiled.with_suffix('.log')}" in faults
        for topic in COMPACTED:
            end = written.end(topic)
            usual = (
                f"Loading producer state till offset {end}",
                f"Reloading from producer snapshot and rebuilding producer state from offset {end}",
                "Loading producer state from snapshot file",
                "Producer state recovery took",
            )
            said = told_by_storage(broker, topic)
            assert said
            assert [line for line in said if not any(each in line for each in usual)] == []
        check_served(broker, written)
        assert contents(folder / "log", ".log") == before
        check_knows_producer(broker, written)


@pytest.mark.spec("LM-13")
def test_without_it_kafka_recovers_a_compacted_directory_and_cuts_nothing(
    compacted_offline: Path, written: Stage
) -> None:
    """Neither marker nor recovery points: everything is read. `CONTROL` ends with a torn batch, which is cut."""
    folder = copied(compacted_offline, "without-marker")
    (folder / "log" / ".kafka_cleanshutdown").unlink()
    (folder / "log" / "recovery-point-offset-checkpoint").unlink()
    torn = max((folder / "log" / f"{CONTROL}-0").glob("*.log"))
    torn.write_bytes(torn.read_bytes() + torn.read_bytes()[:100])
    before = contents(folder / "log", ".log")
    with telling_broker(folder) as broker:
        is_cut = re.compile("truncat|corrupt|invalid|deleting", re.IGNORECASE)
        assert any(is_cut.search(line) for line in told_by_storage(broker, CONTROL))
        for topic in COMPACTED:
            said = told_by_storage(broker, topic)
            assert any("Recovering unflushed segment 0" in line for line in said), topic
            assert [line for line in said if is_cut.search(line)] == []
        check_served(broker, written)
        assert contents(folder / "log", ".log") == before
        check_knows_producer(broker, written)

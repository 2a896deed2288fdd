"""Offsets and epochs that were changed on the disk: the log is cut where it contradicts itself."""

from __future__ import annotations

import pytest

from support.metadata.quorum import DIRECTORY, LOG_DIRECTORY, QuorumWorld
from tailrace.raft.stored_quorum import StoredQuorum
from tailrace.record.shallow import ShallowBatch, batches
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.names import LEADER_EPOCH_CHECKPOINT

LOG = f"{0:020d}.log"
EPOCH_BYTE = 15
OFFSET_BYTE = 7
"""The lowest bytes of the two, from the start of a batch."""


def three_epochs() -> tuple[bytes, bytes, bytes]:
    """The log, election state and epoch checkpoint of a voter that led epochs 1 to 3, each with three batches."""
    rig = QuorumWorld(standalone=True)
    for epoch in (1, 2, 3):
        rig.start()
        for n in range(3):
            rig.append(f"topic-{epoch}-{n}")
            rig.jobs.run_all()
        rig.stop()
    return rig.read(LOG), rig.read("quorum-state"), rig.read(LEADER_EPOCH_CHECKPOINT)


DATA, STATE, EPOCHS = three_epochs()
BATCHES = tuple(batches(DATA))
EPOCHS_OF_BATCHES = [EpochEntry(1, 0), EpochEntry(2, 6), EpochEntry(3, 10), EpochEntry(4, 14)]
"""Of a log that goes on with a fourth epoch."""


def started(data: bytes, epochs: bytes = EPOCHS) -> QuorumWorld:
    """A voter that was killed, with another log or other epochs."""
    rig = QuorumWorld(standalone=True)
    for _ in range(3):
        rig.start()
        rig.stop()
    rig.write(f"{LOG_DIRECTORY}/{LOG}", data)
    rig.write(f"{LOG_DIRECTORY}/quorum-state", STATE)
    rig.write(f"{LOG_DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}", epochs)
    return rig


def kept(rig: QuorumWorld) -> list[ShallowBatch]:
    """Of the batches that were there, before what the voter appends as the new leader."""
    return [batch for batch in batches(rig.read(LOG)) if batch in BATCHES]


@pytest.mark.parametrize("number", range(len(BATCHES)))
@pytest.mark.parametrize("value", [0, 1, 2, 3, 4, 7])
def test_an_epoch_that_was_changed_ends_the_log(number: int, value: int, caplog: pytest.LogCaptureFixture) -> None:
    batch = BATCHES[number]
    data = bytearray(DATA)
    data[batch.position + EPOCH_BYTE] = value
    rig = started(bytes(data))
    rig.start()
    if value == batch.leader_epoch:
        assert kept(rig) == list(BATCHES)
        return
    assert "is damaged and is cut at offset" in caplog.text
    assert len(kept(rig)) <= number
    assert len(kept(rig)) >= number - 1
    assert rig.is_ready
    assert rig.quorum.epoch == 4, "an epoch without a leader does not count"


@pytest.mark.parametrize("number", range(1, len(BATCHES)))
def test_an_offset_that_was_changed_ends_the_log(number: int) -> None:
    data = bytearray(DATA)
    data[BATCHES[number].position + OFFSET_BYTE] += 40
    rig = started(bytes(data))
    rig.start()
    assert kept(rig) == list(BATCHES[:number])
    assert rig.is_ready


@pytest.mark.parametrize("bit", range(8))
def test_epochs_are_those_of_the_batches_whatever_their_file_says(bit: int) -> None:
    for at in range(len(EPOCHS)):
        damaged = bytearray(EPOCHS)
        damaged[at] ^= 1 << bit
        rig = started(DATA, bytes(damaged))
        rig.start()
        assert kept(rig) == list(BATCHES)
        assert rig.read(LEADER_EPOCH_CHECKPOINT).startswith(EPOCHS[:2]), "version 0"
        assert rig.quorum.epoch == 4, (at, damaged)
        rig.jobs.run_all()
        assert rig.read(LEADER_EPOCH_CHECKPOINT).splitlines()[2:5] == EPOCHS.splitlines()[2:5]


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_a_lower_epoch_of_the_election_state_does_not_cut_the_log(epoch: int, caplog: pytest.LogCaptureFixture) -> None:
    rig = started(DATA)
    assert b'"leaderEpoch":3' in STATE
    rig.write(f"{LOG_DIRECTORY}/quorum-state", STATE.replace(b'"leaderEpoch":3', b'"leaderEpoch":%d' % epoch))
    rig.start()
    assert kept(rig) == list(BATCHES)
    assert rig.is_ready
    assert rig.quorum.epoch == 4
    assert f"quorum-state is damaged: it has epoch {epoch}, and the log epoch 3" in caplog.text


def test_a_single_batch_above_the_epoch_of_the_election_state_is_cut_off() -> None:
    leader_change = next(batch for batch in BATCHES if batch.leader_epoch == 3)
    data = bytearray(DATA[: leader_change.end])
    data[leader_change.position + EPOCH_BYTE] = 7
    rig = started(bytes(data))
    rig.start()
    assert kept(rig) == [batch for batch in BATCHES if batch.leader_epoch < 3]
    assert rig.quorum.epoch == 4


def with_snapshot_of_three_epochs() -> tuple[dict[str, bytes], bytes]:
    """The files of a voter whose newest snapshot has three epochs of the log, and its epoch checkpoint."""
    rig = QuorumWorld(standalone=True)
    for epoch in (1, 2, 3):
        rig.start()
        for n in range(3):
            rig.append(f"topic-{epoch}-{n}")
            rig.jobs.run_all()
        rig.stop()
    rig.start()
    rig.append("last")
    rig.jobs.run_all()
    rig.snapshot()
    rig.jobs.run_all()
    rig.stop()
    return {name: rig.read(name) for name in rig.files()}, rig.read(LEADER_EPOCH_CHECKPOINT)


@pytest.mark.parametrize("bit", range(8))
def test_epochs_below_the_newest_snapshot_are_those_of_the_batches(bit: int) -> None:
    files, epochs = with_snapshot_of_three_epochs()
    world = QuorumWorld(standalone=True)
    world.start()
    world.stop()
    for at in range(len(epochs)):
        damaged = bytearray(epochs)
        damaged[at] ^= 1 << bit
        for name in world.files():
            world.disk.unlink(f"{LOG_DIRECTORY}/{name}")
        for name, content in {**files, LEADER_EPOCH_CHECKPOINT: bytes(damaged)}.items():
            world.write(f"{LOG_DIRECTORY}/{name}", content)
        stored = StoredQuorum.load(world.world.env, DIRECTORY, world.config)
        stored.log.log.abandon()
        assert [EpochEntry(*entry) for entry in stored.stored_log.epochs] == EPOCHS_OF_BATCHES, (at, damaged)


def test_damage_below_the_newest_snapshot_does_not_stop_a_start(caplog: pytest.LogCaptureFixture) -> None:
    rig = QuorumWorld(standalone=True, internal_metadata_log_segment_bytes=600)
    rig.start()
    for n in range(20):
        rig.append(f"topic-{n}")
        rig.jobs.run_all()
    rig.snapshot()
    rig.jobs.run_all()
    rig.stop()
    first, *_ = rig.files(".log")
    rig.write(f"{LOG_DIRECTORY}/{first}", bytes(len(rig.read(first))))
    rig.start()
    assert rig.memory.names == rig.appended
    assert "is damaged below offset" in caplog.text

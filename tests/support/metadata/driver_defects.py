"""Injected defects of the quorum's driver, its files and its messages, with the seed of a schedule that finds each.

    PYTHONPATH=tests python -m support.metadata.driver_defects --seeds 2000 [NAME…]

prints a seed for each defect that its own seed no longer finds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from support.metadata.defect_search import Patch, search
from support.metadata.quorum_cluster import QuorumCluster
from support.metadata.quorum_faults import QuorumFaults
from tailrace.env import Files
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages import fetch
from tailrace.protocol.records.control import SnapshotFooterRecord
from tailrace.raft import quorum_state
from tailrace.raft.commit_reporter import CommitReporter
from tailrace.raft.consensus import effects as fx
from tailrace.raft.consensus import messages as ms
from tailrace.raft.consensus.voter_log import VoterSet
from tailrace.raft.core_driver import CoreDriver
from tailrace.raft.metadata_log import MetadataLog
from tailrace.raft.quorum import Quorum
from tailrace.raft.snapshot_download import SnapshotDownload
from tailrace.raft.snapshot_writer import SnapshotWriter
from tailrace.raft.voter_history import VoterHistory
from tailrace.raft.wire import elections, fetches
from tailrace.sim.event_log import Violation
from tailrace.storage.checkpoint import write_temporary

FAULTS_MS = 15_000
FOUND = (AssertionError, TailraceError, Violation)


def run_seed(seed: int) -> None:
    """Three voters under all faults; an odd seed has dynamic ones."""
    cluster = QuorumCluster(seed, 3, is_dynamic=seed % 2 == 1)
    cluster.start()
    faults = QuorumFaults(cluster, seed)
    faults.run(FAULTS_MS)
    cluster.heal()
    cluster.until(lambda: faults.wiped is None, "the wiped voter is replaced")
    cluster.finish()


def run_isolated_leader(seed: int) -> None:
    """A leader appends while no other voter reaches it, and lives on as a follower of the next one."""
    cluster = QuorumCluster(seed, 3, is_dynamic=seed % 2 == 1)
    cluster.start()
    leader = cluster.elected()
    cluster.run_for(1_000)
    others = [f"node-{node_id}" for node_id in cluster.ids if node_id != leader.node_id]
    for link in cluster.universe.network.between([f"node-{leader.node_id}"], others):
        link.is_cut = True
    leader.append()
    cluster.until(lambda: cluster.leader is not None and cluster.leader is not leader, "another leader", 20_000)
    cluster.run_for(2_000)
    cluster.finish()


class DriverDefect(NamedTuple):
    inject: Patch
    seed: int
    run: Callable[[int], None] = run_seed

    def __str__(self) -> str:
        return self.inject.__name__


def found_by(defect: DriverDefect, seed: int) -> Exception | None:
    """A name that does not exist is a defect of the catalog."""
    with pytest.MonkeyPatch.context() as patch:
        defect.inject(patch)
        try:
            defect.run(seed)
        except FOUND as error:
            return error
    return None


def _replace_effect(kind: type, replacement: Callable[[CoreDriver, Any], None], patch: pytest.MonkeyPatch) -> None:
    change = CoreDriver._change_log

    def changed(driver: CoreDriver, effect: Any) -> None:
        if isinstance(effect, kind):
            replacement(driver, effect)
        else:
            change(driver, effect)

    patch.setattr(CoreDriver, "_change_log", changed)


# Durability


def no_fsync(patch: pytest.MonkeyPatch) -> None:
    """An append counts as durable without an fsync."""
    _replace_effect(fx.FlushLog, lambda driver, effect: driver._persisted(effect.number), patch)


def no_election_state(patch: pytest.MonkeyPatch) -> None:
    """Votes and epochs are kept in memory only."""

    def write(driver: CoreDriver) -> None:
        effect, driver._election = driver._election, None
        if effect is not None:
            driver.take(driver.core.persisted(effect.number, driver.now_ms()))

    patch.setattr(CoreDriver, "_write_election", write)


def election_state_without_fsync(patch: pytest.MonkeyPatch) -> None:
    """quorum-state is renamed, but neither the file nor its name is durable."""

    def replace(files: Files, path: str, data: bytes) -> None:
        write_temporary(files, path + ".tmp", data, sync=False)
        files.rename(path + ".tmp", path)

    patch.setattr(quorum_state, "replace_durably", replace)


def elections_overtake_each_other(patch: pytest.MonkeyPatch) -> None:
    """Two writes of quorum-state may be under way: the older one may end last."""
    write = CoreDriver._write_election

    def at_once(driver: CoreDriver) -> None:
        driver._is_writing_election = False
        write(driver)

    patch.setattr(CoreDriver, "_write_election", at_once)


def snapshot_without_fsync(patch: pytest.MonkeyPatch) -> None:
    """The log is trimmed although the snapshot that replaces it is not durable."""

    def finish(writer: SnapshotWriter) -> int:
        writer._write_control([SnapshotFooterRecord(version=0)])
        assert writer._file is not None
        writer._file.close()
        writer._files.rename(writer._part, writer._path)
        return writer.size

    patch.setattr(SnapshotWriter, "finish", finish)


# The log


def no_truncation(patch: pytest.MonkeyPatch) -> None:
    _replace_effect(fx.TruncateLog, lambda driver, effect: driver._persisted(effect.number), patch)


def installs_a_part(patch: pytest.MonkeyPatch) -> None:
    """A part of each chunk of a snapshot is not written."""
    write = SnapshotDownload.write

    def short(download: SnapshotDownload, chunk: bytes, position: int) -> None:
        write(download, chunk[: len(chunk) // 2], position)

    patch.setattr(SnapshotDownload, "write", short)


def keeps_the_state_below_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    """The log is replaced by a snapshot of the leader; the state is not."""
    patch.setattr(Quorum, "log_replaced", lambda quorum, snapshot_id: None)


def snapshots_without_voters(patch: pytest.MonkeyPatch) -> None:
    """The voter set is not in snapshots, and goes when the log below is trimmed."""
    patch.setattr(VoterHistory, "below", lambda history, offset: VoterSet(-1, 0, ()))


# Reports


def reports_the_log_end(patch: pytest.MonkeyPatch) -> None:
    """What is in the log of a node is reported as committed."""
    report = CommitReporter.report

    def early(reporter: CommitReporter, log: MetadataLog, end_offset: int) -> None:
        report(reporter, log, log.log.log_end_offset)

    patch.setattr(CommitReporter, "report", early)


def keeps_lost_appends(patch: pytest.MonkeyPatch) -> None:
    """A leader that resigned still waits for its records, though another leader may have replaced them."""
    patch.setattr(CommitReporter, "drop_appended", lambda reporter: None)


def hides_its_resignation(patch: pytest.MonkeyPatch) -> None:
    """The controller is not notified that this node leads no longer."""
    patch.setattr(Quorum, "leadership_lost", lambda quorum: quorum._committed.drop_appended())


def loses_its_timer(patch: pytest.MonkeyPatch) -> None:
    """Timers that have fired still count as set: later ones are never begun."""

    def fired(driver: CoreDriver, due_ms: int) -> None:
        if due_ms == driver._timer_ms and not driver._is_ended:
            driver.take(driver.core.tick(driver.now_ms()))

    patch.setattr(CoreDriver, "_timer_fired", fired)


# Messages: traps that other implementations have met beside Kafka


def votes_are_asked_of_any_receiver(patch: pytest.MonkeyPatch) -> None:
    """VoteRequest does not name its receiver: Kafka answers INVALID_VOTER_KEY."""
    ask = elections.ask_vote

    def unnamed(request: ms.VoteRequest, address: Any) -> Any:
        message = ask(request, address)
        message.voter_id = -1
        return message

    patch.setattr(elections, "ask_vote", unnamed)


def fetches_have_no_directory(patch: pytest.MonkeyPatch) -> None:
    """Fetch does not name the directory of the replica: with dynamic voters no voter has fetched."""
    ask = fetches.ask_fetch

    def unnamed(request: ms.FetchRequest, address: Any, max_bytes: int) -> fetch.FetchRequest:
        message = ask(request, address, max_bytes)
        message.topics[0].partitions[0].replica_directory_id = bytes(16)
        return message

    patch.setattr(fetches, "ask_fetch", unnamed)


def divergence_is_not_sent(patch: pytest.MonkeyPatch) -> None:
    """A follower whose log diverges gets an empty response."""
    respond = fetches.respond_fetch

    def silent(response: ms.FetchResponse, *rest: Any) -> fetch.FetchResponse:
        return respond(response._replace(diverging=None), *rest)

    patch.setattr(fetches, "respond_fetch", silent)


DEFECTS = (
    DriverDefect(no_fsync, 3),
    DriverDefect(no_election_state, 0),
    DriverDefect(election_state_without_fsync, 0),
    DriverDefect(elections_overtake_each_other, 18),
    DriverDefect(snapshot_without_fsync, 1),
    DriverDefect(no_truncation, 3),
    DriverDefect(installs_a_part, 0),
    DriverDefect(keeps_the_state_below_a_snapshot, 0),
    DriverDefect(snapshots_without_voters, 1),
    DriverDefect(reports_the_log_end, 10),
    DriverDefect(keeps_lost_appends, 0, run_isolated_leader),
    DriverDefect(hides_its_resignation, 0),
    DriverDefect(loses_its_timer, 3),
    DriverDefect(votes_are_asked_of_any_receiver, 0),
    DriverDefect(fetches_have_no_directory, 1),
    DriverDefect(divergence_is_not_sent, 3),
)


if __name__ == "__main__":
    search(DEFECTS, found_by)

"""How a replica without leadership gets the log: looking for a leader, fetching, truncating, snapshots.

A fetch says: up to its offset this replica has the log, durably. So none is sent before what was appended is flushed,
and the answer to a fetch finds the log as the fetch has described it. At most one fetch is under way, unless replicas
that were asked for the leader are silent: then others are asked, and of the answers with records only the first counts.
"""

from __future__ import annotations

from tailrace.model.errors import DivergedLogError
from tailrace.model.invariant import invariant
from tailrace.raft.consensus.effects import (
    AbandonSnapshot,
    AppendFetched,
    InstallSnapshot,
    StartSnapshot,
    WriteSnapshot,
)
from tailrace.raft.consensus.error_code import ErrorCode
from tailrace.raft.consensus.links import InFlight
from tailrace.raft.consensus.member import Member
from tailrace.raft.consensus.messages import (
    NO_OFFSET,
    AddRaftVoterRequest,
    EndOffset,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LogRun,
    RemoveRaftVoterRequest,
    Request,
    UpdateRaftVoterRequest,
)
from tailrace.raft.consensus.roles import Follower, SnapshotFetch, Unattached
from tailrace.raft.consensus.voter_log import VoterSet, key_of
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import STATIC_VOTERS, Voter

_FIRST_BOOTSTRAP_ID = -2
"""Bootstrap servers are numbered downwards from here; -1 is no node."""


class Following:
    def __init__(self, member: Member) -> None:
        self._member = member

    # Requests

    def poll(self) -> None:
        member, role = self._member, self._member.role
        if member.is_stopping:
            return
        if isinstance(role, Unattached):
            self._look_for_leader(role)
        elif isinstance(role, Follower):
            self._poll_follower(role)

    def _look_for_leader(self, role: Unattached) -> None:
        """A voter asks all others; an observer one at a time, and bootstrap servers if it knows no voter."""
        member = self._member
        if not member.is_log_settled:
            return
        if member.is_voter:
            for node_id in member.other_voters:
                self._probe(role, node_id)
        elif member.links.silent_from_ms(member.now_ms) <= member.now_ms:
            self._ask_any(role)

    def _ask_any(self, role: Unattached | Follower) -> None:
        """Any replica that may know the leader, the silent leader among them: it may answer again."""
        member = self._member
        known = {*member.other_voters, *((role.leader_id,) if isinstance(role, Follower) else ())}
        choices = [node_id for node_id in sorted(known) if member.endpoints_of(node_id)]
        choices += [_FIRST_BOOTSTRAP_ID - index for index in range(len(member.config.bootstrap))]
        ready = [node_id for node_id in choices if member.links.is_ready(node_id, FetchRequest, member.now_ms)]
        if ready:
            node_id = member.rng.choice(ready)
            if isinstance(role, Unattached):
                self._probe(role, node_id)
            else:
                self._send_fetch(node_id, 0)

    def _probe(self, role: Unattached, node_id: int) -> None:
        """Asks one replica for the leader, now and then."""
        member = self._member
        if role.probe_at_ms.get(node_id, 0) > member.now_ms:
            return
        if member.links.is_ready(node_id, FetchRequest, member.now_ms):
            role.probe_at_ms[node_id] = member.now_ms + max(1, member.config.fast_election_step_ms)
            self._send_fetch(node_id, 0)

    def _send_fetch(self, node_id: int, max_wait_ms: int) -> None:
        member = self._member
        log = member.log
        high_watermark = member.high_watermark if member.high_watermark > 0 else NO_OFFSET
        request = FetchRequest(member.key, member.epoch, log.end_offset, log.last_epoch, high_watermark, max_wait_ms)
        self._send(node_id, request)

    def _send(self, node_id: int, request: Request) -> None:
        member = self._member
        endpoints = member.endpoints_of(node_id)
        if node_id <= _FIRST_BOOTSTRAP_ID:
            endpoints = (member.config.bootstrap[_FIRST_BOOTSTRAP_ID - node_id],)
        member.send(node_id, endpoints, request)

    def _poll_follower(self, role: Follower) -> None:
        """A voter without its leader stands for election. An observer looks for another leader."""
        member = self._member
        is_late = self._is_late(role)
        if role.snapshot is not None and not is_late:
            self._fetch_snapshot(role.leader_id, role.snapshot)
            return
        if role.snapshot is not None:
            member.emit(AbandonSnapshot(role.snapshot.snapshot_id))
            role.snapshot = None
        if not member.is_log_settled:
            return
        self._report_voter(role)
        is_pausing = member.links.pause_end_ms(role.leader_id, member.now_ms) is not None
        if is_late or (is_pausing and not member.is_voter):
            if member.links.silent_from_ms(member.now_ms) <= member.now_ms:
                self._ask_any(role)
        elif member.links.is_ready(role.leader_id, FetchRequest, member.now_ms):
            self._send_fetch(role.leader_id, member.config.fetch_max_wait_ms)

    def _is_late(self, role: Follower) -> bool:
        """An observer has not heard from its leader for the fetch timeout."""
        return not self._member.is_voter and role.deadline_ms <= self._member.now_ms

    def next_question_ms(self) -> int | None:
        """When an observer without a leader asks another replica because those that it asked are silent."""
        member, role = self._member, self._member.role
        is_looking = isinstance(role, Unattached) or (isinstance(role, Follower) and self._is_late(role))
        return member.links.silent_from_ms(member.now_ms) if is_looking and not member.is_voter else None

    def _fetch_snapshot(self, leader_id: int, snapshot: SnapshotFetch) -> None:
        member = self._member
        if member.installing is not None:
            return
        if member.links.is_ready(leader_id, FetchSnapshotRequest, member.now_ms):
            limit = member.config.fetch_snapshot_max_bytes
            request = FetchSnapshotRequest(member.key, member.epoch, snapshot.snapshot_id, snapshot.position, limit)
            self._send(leader_id, request)

    def _report_voter(self, role: Follower) -> None:
        """Tells the leader from time to time what its voter record lacks, or joins the voters."""
        member = self._member
        is_ready = member.links.is_ready(role.leader_id, UpdateRaftVoterRequest, member.now_ms)
        if role.update_voter_at_ms > member.now_ms or not is_ready:
            return
        role.update_voter_at_ms = member.now_ms + member.config.update_voter_period_ms
        request = self._voter_report(role)
        if request is not None:
            self._send(role.leader_id, request)

    def _voter_report(self, role: Follower) -> Request | None:
        """With kraft.version 0 the voter reports to each leader once: no record has its directory, which an upgrade
        of the version needs.
        """
        member = self._member
        low, high = member.config.supported_kraft_versions
        voters, local = member.voters, member.local
        known = voters.voter(local.node_id)
        update = UpdateRaftVoterRequest(member.epoch, local, low, high)
        if voters.kraft_version == STATIC_VOTERS:
            if member.is_voter and not role.has_reported_voter:
                return update
            return None
        if member.is_voter:
            return update if known != local else None
        if not (member.config.is_auto_join_enabled and member.config.can_become_voter):
            return None
        if known is not None:
            return RemoveRaftVoterRequest(key_of(known))
        return AddRaftVoterRequest(local, is_acknowledged_when_committed=False)

    # Responses

    def on_voter_report_answered(self, error: int) -> None:
        role = self._member.role
        if isinstance(role, Follower) and error == ErrorCode.NONE:
            role.has_reported_voter = True

    def on_fetch_response(self, sent: InFlight, response: FetchResponse) -> None:
        """A response without error to the newest fetch. It counts if it is of the leader that this node follows.

        The leader may have been asked as a bootstrap server, so the node id of the request does not count. One that
        is of no use is followed by a pause, and does not prove that the leader is alive: a leader that goes on like
        that is replaced.
        """
        member, role = self._member, self._member.role
        is_of_leader = isinstance(role, Follower) and role.leader_id == response.leadership.leader_id
        if isinstance(role, Follower) and is_of_leader and self._use(sent, role, response):
            self._leader_is_alive(role)
        else:
            member.links.pause(sent.node_id, member.now_ms)

    def _use(self, sent: InFlight, role: Follower, response: FetchResponse) -> bool:
        """Whether the response has changed something, or the leader has waited for something."""
        member, request = self._member, sent.request
        assert isinstance(request, FetchRequest)
        is_described = (request.offset, request.last_epoch) == (member.log.end_offset, member.log.last_epoch)
        is_replaced = role.snapshot is not None or member.installing is not None
        if not is_described or is_replaced:  # the leader has answered another fetch in between
            return False
        if response.diverging is not None:
            return self._truncate(response.diverging)
        if response.snapshot_id is not None:
            return self._start_snapshot(role, response.snapshot_id)
        has_news = self._append(sent.correlation_id, response.runs)
        if response.high_watermark >= 0:
            has_news |= member.move_high_watermark(min(response.high_watermark, member.log.end_offset))
        waited_ms = member.now_ms - sent.sent_ms
        return has_news or (not response.runs and waited_ms >= request.max_wait_ms // 2)

    def _leader_is_alive(self, role: Follower) -> None:
        role.deadline_ms = self._member.now_ms + self._member.config.fetch_timeout_ms
        role.has_fetched = True

    def _append(self, correlation_id: int, runs: tuple[LogRun, ...]) -> bool:
        """Appends what continues the log. What a deposed leader sent late ends at a batch of a later epoch."""
        member = self._member
        base_offset = member.log.end_offset
        for run in runs:
            is_next = run.base_offset == member.log.end_offset < run.end_offset
            if not is_next or not member.log.last_epoch <= run.epoch <= member.epoch:
                break
            member.log.append(run.end_offset, run.epoch)
            for change in run.changes:
                member.change_voters(change)
        if member.log.end_offset == base_offset:
            return False
        member.emit(AppendFetched(correlation_id, member.log.end_offset))
        member.flush()
        return True

    def _truncate(self, diverging: EndOffset) -> bool:
        """Cuts the log where it leaves that of the leader. What is committed cannot diverge: see `Fail`."""
        member = self._member
        end_offset = max(member.log.truncation_offset(diverging), 0)
        lowest = min(end_offset, diverging.offset)
        if lowest < member.high_watermark or end_offset < member.log.start_offset:
            member.fail(
                DivergedLogError(
                    f"leader {member.elected} of epoch {member.epoch} ends epoch {diverging.epoch} at offset "
                    f"{diverging.offset}; this log is committed up to offset {member.high_watermark}"
                )
            )
        elif end_offset < member.log.end_offset:
            member.truncate(end_offset)
            return True
        return False

    # Snapshots

    def _start_snapshot(self, role: Follower, snapshot_id: SnapshotId) -> bool:
        """The leader's log begins above the end of this one, or this one is empty."""
        member = self._member
        is_newer = (snapshot_id.epoch, snapshot_id.offset) > (member.log.last_epoch, member.log.end_offset)
        if snapshot_id.offset <= 0 or not 0 <= snapshot_id.epoch <= member.epoch or not is_newer:
            return False
        if snapshot_id.offset < member.high_watermark:
            return False
        role.snapshot = SnapshotFetch(snapshot_id)
        member.emit(StartSnapshot(snapshot_id))
        return True

    def on_fetch_snapshot_response(self, sent: InFlight, response: FetchSnapshotResponse) -> None:
        """A chunk, or an error: a snapshot that the leader no longer has is given up."""
        member, role = self._member, self._member.role
        if not isinstance(role, Follower) or role.snapshot is None:
            return
        snapshot = role.snapshot
        is_chunk = response.snapshot_id == snapshot.snapshot_id and response.position == snapshot.position
        is_in_size = 0 < response.chunk_bytes <= response.size_bytes - response.position
        if response.error != ErrorCode.NONE or not is_chunk or not is_in_size:
            role.snapshot = None
            member.emit(AbandonSnapshot(snapshot.snapshot_id))
            member.links.pause(sent.node_id, member.now_ms)
        else:
            member.emit(WriteSnapshot(sent.correlation_id, snapshot.snapshot_id, snapshot.position))
            snapshot.position += response.chunk_bytes
            if snapshot.position == response.size_bytes:
                member.installing = snapshot.snapshot_id
                role.snapshot = None
                member.emit(InstallSnapshot(snapshot.snapshot_id))
        self._leader_is_alive(role)

    def snapshot_installed(self, snapshot_id: SnapshotId, kraft_version: int, voters: tuple[Voter, ...]) -> None:
        """The log is the snapshot now, durably, whatever the role is by now."""
        member = self._member
        invariant(member.installing == snapshot_id, f"snapshot {snapshot_id} is being installed")
        member.installing = None
        member.log_replaced_by(snapshot_id)
        base = VoterSet(NO_OFFSET, STATIC_VOTERS, member.config.static_voters)
        if kraft_version > STATIC_VOTERS:
            base = VoterSet(snapshot_id.offset - 1, kraft_version, voters)
        member.voter_log.replace(base)
        member.notify_voters()
        member.move_high_watermark(snapshot_id.offset)
        if isinstance(member.role, Follower):
            self._leader_is_alive(member.role)

    def snapshot_failed(self, snapshot_id: SnapshotId) -> None:
        """The file was damaged and is deleted: fetch again, after the pause of a failed request."""
        member = self._member
        invariant(member.installing == snapshot_id, f"snapshot {snapshot_id} is being installed")
        member.installing = None
        if isinstance(member.role, Follower):
            member.links.pause(member.role.leader_id, member.now_ms)

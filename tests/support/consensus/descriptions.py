"""Effects and messages of the consensus core as short lines, for scenarios."""

from __future__ import annotations

from tailrace.raft.consensus import ErrorCode, LogRun
from tailrace.raft.consensus import effects as fx
from tailrace.raft.consensus import messages as ms
from tailrace.raft.voters import Voter


def _error(code: int) -> str:
    return "" if code == ErrorCode.NONE else f" {ErrorCode(code).name}"


def _voters(voters: tuple[Voter, ...]) -> str:
    return ",".join(f"{voter.node_id}" for voter in voters) or "none"


def _leadership(leadership: ms.Leadership) -> str:
    leader = "no leader" if leadership.leader_id < 0 else f"leader {leadership.leader_id}"
    return f"({leader}, epoch {leadership.epoch})"


def _runs(runs: tuple[LogRun, ...]) -> str:
    return ", ".join(f"{run.base_offset}..{run.end_offset - 1} of epoch {run.epoch}" for run in runs)


def describe_request(request: ms.Request) -> str:
    match request:
        case ms.VoteRequest():
            kind = "PreVote" if request.is_pre_vote else "Vote"
            return f"{kind} epoch {request.epoch}, log ends at {request.end_offset} in epoch {request.last_epoch}"
        case ms.BeginQuorumEpochRequest():
            return f"BeginQuorumEpoch epoch {request.epoch}, leader {request.leader_id}"
        case ms.EndQuorumEpochRequest():
            preferred = ",".join(str(key.node_id) for key in request.preferred)
            return f"EndQuorumEpoch epoch {request.epoch}, leader {request.leader_id}, successors {preferred}"
        case ms.FetchRequest():
            high_watermark = "?" if request.high_watermark < 0 else request.high_watermark
            return (
                f"Fetch epoch {request.epoch}, from {request.offset} after epoch {request.last_epoch}, "
                f"high watermark {high_watermark}"
            )
        case ms.FetchSnapshotRequest():
            return f"FetchSnapshot {_snapshot(request.snapshot_id)}, from byte {request.position}"
        case ms.AddRaftVoterRequest():
            return f"AddRaftVoter {request.voter.node_id}"
        case ms.RemoveRaftVoterRequest():
            return f"RemoveRaftVoter {request.voter.node_id}"
        case ms.UpdateRaftVoterRequest():
            return f"UpdateRaftVoter {request.voter.node_id}"
        case _:
            return "ApiVersions"


def _snapshot(snapshot_id: tuple[int, int]) -> str:
    return f"snapshot {snapshot_id[0]}-{snapshot_id[1]}"


def describe_response(response: ms.Response) -> str:
    match response:
        case ms.VoteResponse():
            answer = "granted" if response.is_granted else "rejected"
            return f"vote {answer}{_error(response.error)} {_leadership(response.leadership)}"
        case ms.FetchResponse():
            return f"fetched{_fetched(response)} {_leadership(response.leadership)}"
        case ms.FetchSnapshotResponse():
            return f"snapshot bytes {response.position}+{response.chunk_bytes} of {response.size_bytes}" + _error(
                response.error
            )
        case ms.VoterChangeResponse():
            return (
                f"voters changed{_error(response.error)}" if response.error == 0 else f"refused{_error(response.error)}"
            )
        case ms.KRaftVersionsResponse():
            return f"kraft.version {response.min_kraft_version} to {response.max_kraft_version}"
        case _:
            return (
                f"{type(response).__name__.removesuffix('Response')} answered{_error(response.error)} "
                + _leadership(response.leadership)
            )


def _fetched(response: ms.FetchResponse) -> str:
    if response.error != ErrorCode.NONE:
        return _error(response.error)
    high_watermark = f", high watermark {response.high_watermark}" if response.high_watermark >= 0 else ""
    if response.diverging is not None:
        return f" DIVERGING epoch {response.diverging.epoch} ends at {response.diverging.offset}"
    if response.snapshot_id is not None:
        return f" {_snapshot(response.snapshot_id)}"
    if response.read_until is not None:
        return f" records below {response.read_until}{high_watermark}"
    return f" {_runs(response.runs) or 'nothing'}{high_watermark}"


def describe(effect: fx.Effect) -> str | None:
    """None for what a scenario does not show: messages are shown when they are delivered."""
    match effect:
        case fx.PersistElection():
            voted = "" if effect.state.voted_id < 0 else f", vote for {effect.state.voted_id}"
            leader = "" if effect.state.leader_id < 0 else f", leader {effect.state.leader_id}"
            return f"persist epoch {effect.state.leader_epoch}{voted}{leader}"
        case fx.AppendControl():
            names = ", ".join(type(record).__name__ for record in effect.records)
            return f"append {names} at {effect.base_offset} in epoch {effect.epoch}"
        case fx.AppendFetched():
            return f"append what was fetched, up to {effect.end_offset}"
        case fx.TruncateLog():
            return f"truncate to {effect.end_offset}"
        case fx.FlushLog():
            return f"flush up to {effect.end_offset}"
        case fx.StartSnapshot():
            return f"begin {_snapshot(effect.snapshot_id)}"
        case fx.WriteSnapshot():
            return f"write {_snapshot(effect.snapshot_id)} at byte {effect.position}"
        case fx.InstallSnapshot():
            return f"install {_snapshot(effect.snapshot_id)}"
        case fx.AbandonSnapshot():
            return f"abandon {_snapshot(effect.snapshot_id)}"
        case fx.HighWatermarkMoved():
            return f"high watermark {effect.offset}"
        case fx.RoleChanged():
            leader = f", follows {effect.leader_id}" if effect.role is fx.RoleName.FOLLOWER else ""
            return f"{effect.role.value} in epoch {effect.epoch}{leader}"
        case fx.LeadershipGained():
            return f"leads epoch {effect.epoch} and may append"
        case fx.LeadershipLost():
            return f"leads epoch {effect.epoch} no longer"
        case fx.VotersChanged():
            return f"voters {_voters(effect.voters)} (kraft.version {effect.kraft_version}, offset {effect.offset})"
        case fx.Fail():
            return f"FAIL {type(effect.error).__name__}: {effect.error}"
        case _:
            return None
